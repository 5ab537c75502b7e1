use ladoga_http1::Method;
use ladoga_http1::server::Request;

/// Under which names a node without tokens may be asked.
///
/// A page that a browser has loaded from elsewhere can send requests to this machine. One of another origin says so in `Origin` or
/// `Sec-Fetch-Site`. One whose name was made to point to this node looks as if it came from here, and shows only by the name in `Host`:
/// an address, a name without a dot, and what ends with `.localhost` cannot belong to a stranger, and any other name has to be known.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// In small letters.
    names: Box<[Box<str>]>,
    is_any: bool,
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stranger {
    /// Nobody said that this name is one of the node.
    #[error(
        "the Host is not a name of this node; expected an address, or a name without a dot, or one given by --allow-host"
    )]
    Host,
    /// A page of another origin asks.
    #[error(
        "a page of another origin may not ask this node; expected one that was loaded from it, or from an --allow-host"
    )]
    Origin,
}

impl Hosts {
    /// These names, beside those that cannot belong to a stranger; `*` is any name.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Hosts {
        let names: Vec<&str> = names.into_iter().collect();
        let is_any = names.contains(&"*");
        Hosts { names: names.iter().map(|name| name.to_ascii_lowercase().into()).collect(), is_any }
    }

    /// Whether a request may come from whoever sends it.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Stranger> {
        let host = request.host();
        if !self.is_any && !self.is_own(name_of(host)) {
            return Err(Stranger::Host);
        }
        if request.may_be_of_a_page() { self.check_page(request, host) } else { Ok(()) }
    }

    fn check_page(&self, request: &Request, host: &[u8]) -> Result<(), Stranger> {
        let mut origins = request.fields("origin");
        if let Some(origin) = origins.next() {
            if origins.next().is_some() {
                return Err(Stranger::Origin);
            }
            let authority = authority_of(origin).ok_or(Stranger::Origin)?;
            // A page of one that is known by name may be elsewhere.
            if self.is_named(name_of(authority)) {
                return Ok(());
            }
            if !authority.eq_ignore_ascii_case(host) {
                return Err(Stranger::Origin);
            }
        }
        // A link that a person follows is no page that asks; and it reads only.
        let is_followed = matches!(request.method, Method::GET | Method::HEAD)
            && request.fields("sec-fetch-mode").all(|mode| mode == b"navigate")
            && request.fields("sec-fetch-mode").next().is_some();
        let is_elsewhere =
            |site: &[u8]| !site.eq_ignore_ascii_case(b"same-origin") && !site.eq_ignore_ascii_case(b"none");
        if request.fields("sec-fetch-site").any(is_elsewhere) && !is_followed {
            return Err(Stranger::Origin);
        }
        Ok(())
    }

    fn is_own(&self, name: &[u8]) -> bool {
        // A name whose last label is a number is an address to every browser.
        let (mut is_address, mut has_dot) = (true, false);
        for byte in name {
            has_dot |= *byte == b'.';
            is_address &= byte.is_ascii_digit() || *byte == b'.';
        }
        is_address
            || !has_dot
            || name.first() == Some(&b'[')
            || self.is_named(name)
            || ends_with(name, b".localhost")
    }

    fn is_named(&self, name: &[u8]) -> bool {
        self.is_any || self.names.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The host and the port of an origin, unless it is one that no page of a node has.
fn authority_of(origin: &[u8]) -> Option<&[u8]> {
    origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"))
}

fn ends_with(name: &[u8], end: &[u8]) -> bool {
    name.len() > end.len() && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

/// A host without its port.
fn name_of(host: &[u8]) -> &[u8] {
    if host.first() == Some(&b'[') {
        return host.iter().position(|byte| *byte == b']').map_or(host, |end| &host[..=end]);
    }
    host.iter().position(|byte| *byte == b':').map_or(host, |colon| &host[..colon])
}

#[cfg(test)]
mod tests {
    use ladoga_http1::server::{Connection, HeadLimits};

    use super::*;

    fn check(hosts: &Hosts, method: &str, fields: &str) -> Result<(), Stranger> {
        check_head(hosts, &format!("{method} /metrics HTTP/1.1\r\n{fields}\r\n"))
    }

    fn check_head(hosts: &Hosts, head: &str) -> Result<(), Stranger> {
        let limits = HeadLimits { line_bytes_max: 1_000, fields_bytes_max: 1_000 };
        let mut connection = Connection::new(limits, 0);
        connection.receive(head.as_bytes(), || 0);
        let request = connection.next_request(0).expect("a request").expect("a whole head");
        hosts.check(&request)
    }

    #[test]
    fn a_name_that_a_stranger_can_have_is_refused_unless_it_is_known() {
        let hosts = Hosts::new(["db.example.com"]);
        for host in [
            "127.0.0.1:8080",
            "10.0.0.7",
            "[::1]:8080",
            "localhost:8080",
            "node-1",
            "a.localhost",
            "DB.example.com:80",
            "",
        ] {
            assert_eq!(check(&hosts, "GET", &format!("Host: {host}\r\n")), Ok(()), "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:8080",
            "xlocalhost.",
            "db.example.com.evil.example",
            ".localhost",
        ] {
            let checked = check(&hosts, "GET", &format!("Host: {host}\r\n"));
            assert_eq!(checked, Err(Stranger::Host), "{host}");
        }
        assert_eq!(check(&Hosts::new(["*"]), "GET", "Host: evil.example\r\n"), Ok(()));
    }

    #[test]
    fn a_name_in_the_target_counts_rather_than_the_host() {
        let asked = |target: &str, host: &str| {
            let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            check_head(&Hosts::default(), &head)
        };
        for target in [
            "http://evil.example/metrics",
            "http://localhost@evil.example/",
            "http://localhost:1@evil.example/",
        ] {
            assert_eq!(asked(target, "localhost"), Err(Stranger::Host), "{target}");
        }
        assert_eq!(asked("http://localhost:8080/metrics", "evil.example"), Ok(()));
        assert_eq!(asked("/metrics?http://evil.example/", "localhost"), Ok(()));
    }

    #[test]
    fn a_page_of_another_origin_may_not_ask() {
        let hosts = Hosts::new(["db.example.com"]);
        let here = "Host: localhost:8080\r\n";
        for fields in [
            "Origin: http://localhost:8080\r\n",
            "Origin: https://db.example.com\r\n",
            "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n",
            "Sec-Fetch-Site: none\r\n",
            "Origin: http://localhost:8080\r\nSec-Fetch-Site: same-origin\r\n",
            "Origin: https://db.example.com\r\nSec-Fetch-Site: cross-site\r\n",
        ] {
            assert_eq!(check(&hosts, "POST", &format!("{here}{fields}")), Ok(()), "{fields}");
        }
        for fields in [
            "Origin: null\r\n",
            "Origin: http://localhost:3000\r\n",
            "Origin: http://evil.example\r\n",
            "Origin: http://evil.example\r\nSec-Fetch-Site: same-origin\r\n",
            "Origin: http://localhost:8080\r\nOrigin: http://evil.example\r\n",
            "Origin: http://localhost:8080\r\nSec-Fetch-Site: cross-site\r\n",
            "Origin: https://localhost:8080\r\nSec-Fetch-Site: same-site\r\n",
            "Sec-Fetch-Site: cross-site\r\n",
            "Sec-Fetch-Site: same-site\r\nSec-Fetch-Mode: no-cors\r\n",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
        ] {
            assert_eq!(check(&hosts, "POST", &format!("{here}{fields}")), Err(Stranger::Origin), "{fields}");
        }
        let followed = format!("{here}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n");
        assert_eq!(check(&hosts, "GET", &followed), Ok(()));
    }
}
