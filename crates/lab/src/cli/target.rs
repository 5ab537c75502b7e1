use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use ladoga_http1::masked;
use ladoga_tls::client::words::Hints;
use ladoga_tls::client::{Identity, TlsClient, Trust, Unusable};

use super::token::Token;
use crate::error::{LabError, Outcome};

/// What to do about a certificate, by the flags of `ladoga bench`.
const HINTS: Hints = Hints {
    authority: "Name the one that has with --ca FILE, or leave --verify out",
    certificate: "Show one with --cert FILE and --key FILE",
};

/// How an address begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Where requests go: `http://HOST[:PORT][/PATH]`, or with `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// As it was typed.
    pub(crate) url: String,
    pub(crate) scheme: Scheme,
    /// Of https.
    pub(crate) trust: Trust,
    /// The files of a certificate that is shown there, and of its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// Without brackets.
    pub(crate) host: String,
    /// None if the address names none.
    pub(crate) port: Option<u16>,
    /// With the query, at least `/`.
    pub(crate) path: String,
    /// What is shown there to be let in.
    pub(crate) token: Option<Token>,
}

impl Target {
    /// The error is one line about what is wrong.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("invalid URL `{}`: {what}", masked(url));
        let (scheme, rest) = match url.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            _ if url.starts_with(['\u{2013}', '\u{2014}']) => {
                return Err(wrong("an option begins with - or --, not with this dash"));
            }
            _ => return Err(wrong("expected http://HOST[:PORT][/PATH] or https://…")),
        };
        let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_end);
        if authority.contains('@') {
            return Err(wrong("remove the user name and the password, which would not be sent"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| wrong("a bracket is missing"))?;
        let port = match port {
            None | Some("") => None,
            Some(digits) => Some(digits.parse().map_err(|_| wrong("its port is not a number up to 65535"))?),
        };
        if host.is_empty() {
            return Err(wrong("it has no host"));
        }
        if rest.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(wrong("it has a blank or a control character"));
        }
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (trust, identity, token) = (Trust::default(), None, None);
        Ok(Self { url: url.to_owned(), scheme, trust, identity, host: host.to_owned(), port, path, token })
    }

    /// As [`Self::parse`], of a server that gets requests with paths of their own.
    pub(crate) fn parse_server(url: &str) -> Result<Self, String> {
        let target = Self::parse(url)?;
        if target.has_path() {
            return Err(format!(
                "invalid URL `{url}`: workloads have paths of their own: remove {}",
                target.path
            ));
        }
        Ok(target)
    }

    pub(crate) fn has_path(&self) -> bool {
        self.path != "/"
    }

    pub(crate) fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(self.scheme.port())
    }

    /// The value of `Host`.
    pub(crate) fn host_header(&self) -> String {
        let host = bracketed(&self.host);
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    /// The header fields that a request to it has: those that a person gave, and what is shown to be let in.
    pub(crate) fn fields(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        given.iter().cloned().chain(self.token.as_ref().map(Token::field)).collect()
    }

    /// `HOST:PORT`, for words.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", bracketed(&self.host), self.port_or_default())
    }

    /// How the server is talked to if it speaks TLS.
    pub(crate) fn tls(&self) -> Outcome<Option<TlsClient>> {
        match self.scheme {
            Scheme::Http => Ok(None),
            Scheme::Https => self.secure().map(Some).map_err(|why| LabError::Usage(self.told(&why))),
        }
    }

    fn secure(&self) -> Result<TlsClient, Unusable> {
        let files = self.identity.as_ref();
        let identity = files.map(|(certificate, key)| Identity::read(certificate, key)).transpose()?;
        TlsClient::new(&self.host, &self.trust, identity.as_ref(), HINTS)
    }

    fn told(&self, why: &Unusable) -> String {
        match (why, &self.trust) {
            (Unusable::NoAuthorities(_), _) => format!("{why}. Name a file with --ca"),
            (Unusable::Read { .. } | Unusable::Files(_), Trust::File(path)) if self.identity.is_none() => {
                format!("--ca: {} has no usable certificate: {why}", path.display())
            }
            _ => why.to_string(),
        }
    }

    /// Whether both name one server. Two names of one machine may be two servers to it.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host) && self.port_or_default() == other.port_or_default()
    }

    /// Every address of the host, in the system's order.
    pub(crate) fn resolve(&self) -> Outcome<Vec<SocketAddr>> {
        resolve(&self.host, self.port_or_default())
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

pub(crate) fn resolve(host: &str, port: u16) -> Outcome<Vec<SocketAddr>> {
    let addresses = (host, port).to_socket_addrs();
    let failed = |source| LabError::Resolve { place: format!("{}:{port}", bracketed(host)), source };
    addresses.map(Iterator::collect).map_err(failed)
}

fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        return if rest.is_empty() {
            Some((host, None))
        } else {
            Some((host, Some(rest.strip_prefix(':')?)))
        };
    }
    Some(authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (String, Option<u16>, String) {
        let target = Target::parse(url).unwrap();
        (target.host, target.port, target.path)
    }

    #[test]
    fn addresses_are_taken_apart() {
        assert_eq!(parts("http://localhost:8080"), ("localhost".into(), Some(8080), "/".into()));
        assert_eq!(parts("http://a"), ("a".into(), None, "/".into()));
        assert_eq!(parts("http://a/b?c=d#e"), ("a".into(), None, "/b?c=d".into()));
        assert_eq!(parts("http://a?c"), ("a".into(), None, "/?c".into()));
        assert_eq!(parts("http://[::1]:80/x@y"), ("::1".into(), Some(80), "/x@y".into()));
        assert_eq!(Target::parse("http://[::1]:80").unwrap().host_header(), "[::1]:80");
        assert_eq!(Target::parse("http://[::1]").unwrap().place(), "[::1]:80");
        assert_eq!(Target::parse("http://a").unwrap().host_header(), "a");
        assert_eq!(Target::parse("https://a/b").unwrap().place(), "a:443");
        assert_eq!(Target::parse("https://a:8443").unwrap().host_header(), "a:8443");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for url in [
            "",
            "localhost:8080",
            "ftp://a",
            "https://",
            "http://",
            "http://a:x",
            "http://[::1",
            "http://a b",
            "\u{2014}latency",
        ] {
            let reason = Target::parse(url).unwrap_err();
            assert!(reason.starts_with(&format!("invalid URL `{url}`: ")), "{reason}");
        }
        for url in ["http://user:password@a:80/x", "http://password@a:80/x", "http://user:pass/word@a:80/x"] {
            let reason = Target::parse(url).unwrap_err();
            assert!(reason.starts_with("invalid URL `http://***@a:80/x`: "), "{reason}");
        }
    }
}
