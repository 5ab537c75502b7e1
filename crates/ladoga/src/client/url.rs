use std::fmt::{self, Write};

use super::{Bearer, ClientTls};

/// How a URL begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// In the clear.
    Http,
    /// By TLS.
    Https,
}

/// Where a node is: `http://HOST[:PORT]`, or with `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: Scheme,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What it is shown to let a client in, if it wants something.
    pub(crate) bearer: Option<Bearer>,
    /// How to give it something, if it wants something and has nothing.
    pub(crate) token_hint: &'static str,
    /// By https, whom it is trusted to be, and what is shown to it.
    pub(crate) tls: Option<ClientTls>,
}

impl Scheme {
    const fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

impl Url {
    /// Understands the URL of a node; it has no path but `/`.
    pub(crate) fn parse(text: &str) -> Option<Url> {
        let (scheme, authority) = match text.split_once("://")? {
            ("http", authority) => (Scheme::Http, authority),
            ("https", authority) => (Scheme::Https, authority),
            _ => return None,
        };
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        if authority.contains(['/', '?', '#', '@', ' ']) {
            return None;
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').filter(|(host, _)| host.contains(':'))?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
            None if port.is_empty() => scheme.port(),
            _ => return None,
        };
        (!host.is_empty()).then(|| Url {
            scheme,
            host: host.to_owned(),
            port,
            bearer: None,
            token_hint: "",
            tls: None,
        })
    }

    /// Another node of the same cluster, by its name: it is asked as this one is.
    pub(crate) fn of_sibling(&self, name: &str) -> Option<Url> {
        let sibling = Url::parse(name)?;
        let tls = match &self.tls {
            Some(tls) => Some(tls.for_host(&sibling.host)?),
            None => None,
        };
        let bearer = self.bearer.clone();
        Some(Url { scheme: self.scheme, bearer, token_hint: self.token_hint, tls, ..sibling })
    }

    /// The header field by which a client is let in, with its end; empty if there is none.
    pub(crate) fn authorization(&self) -> String {
        self.bearer.as_ref().map_or_else(String::new, Bearer::field)
    }

    /// Host and port, as in a URL.
    pub(crate) fn authority(&self) -> String {
        let Url { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority())
    }
}

/// Bytes, encoded for a query.
pub(crate) fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_and_may_have_a_port() {
        let parse = |text| Url::parse(text).map(|url| (url.host, url.port));
        assert_eq!(parse("http://h"), Some(("h".to_owned(), 80)));
        assert_eq!(parse("https://h"), Some(("h".to_owned(), 443)));
        assert_eq!(Url::parse("https://h").map(|url| url.to_string()), Some("https://h:443".to_owned()));
        assert_eq!(parse("http://127.0.0.1:8080/"), Some(("127.0.0.1".to_owned(), 8080)));
        assert_eq!(parse("http://[::1]:8080"), Some(("::1".to_owned(), 8080)));
        assert_eq!(Url::parse("http://[::1]").map(|url| url.to_string()), Some("http://[::1]:80".to_owned()));
        for text in [
            "",
            "h",
            "http://",
            "http:///",
            "https://",
            "HTTPS://h",
            "ftp://h:1",
            "http://h:",
            "http://h:65536",
            "http://h:x",
            "http://h/path",
            "http://u@h",
            "http://[h]",
            "http://h:1:2",
            "http://:1",
            "http://h:+1",
        ] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }

    #[test]
    fn only_what_needs_it_is_encoded() {
        assert_eq!(percent_encoded(b"aZ0-._~"), "aZ0-._~");
        assert_eq!(percent_encoded(b"a+b &%\n\xff"), "a%2Bb%20%26%25%0A%FF");
    }
}
