use std::net::SocketAddr;
use std::path::PathBuf;

use ladoga_tls::TlsPaths;

use super::SettingError;
use super::machine;
use super::sources::Sources;

/// Who may use a node, as it was said.
#[derive(Debug)]
pub(crate) struct AccessSettings {
    /// The file of tokens; without one, anybody.
    pub(crate) tokens: Option<PathBuf>,
    /// The file of the secret that all nodes of the cluster share.
    pub(crate) peer_secret: Option<PathBuf>,
    /// Names under which a node without tokens may be asked, beside those that cannot belong to a stranger.
    pub(crate) allow_host: Vec<String>,
    /// The audit log.
    pub(crate) audit: Option<PathBuf>,
    /// Whether that has every write.
    pub(crate) audit_writes: bool,
    /// Whether tokens travel over a network as they are.
    pub(crate) is_in_the_clear: bool,
}

/// Where a node listens, by the names of the settings.
pub(super) type Listening<'l> = [(&'static str, &'l [SocketAddr]); 2];

impl AccessSettings {
    pub(super) fn read(
        sources: &Sources,
        listening: Listening<'_>,
        is_of_cluster: bool,
        tls: Option<&TlsPaths>,
    ) -> Result<AccessSettings, SettingError> {
        let tokens = sources.get("tokens", file)?;
        let peer_secret = sources.get("peer_secret", file)?;
        let is_insecure = sources.get("insecure", super::parse::yes_or_no)?.unwrap_or(false);
        let audit = sources.get("audit", file)?;
        let audit_writes = sources.get("audit_writes", super::parse::yes_or_no)?.unwrap_or(false);
        let is_open = listening.iter().any(|(_, addresses)| addresses.iter().any(is_reachable));
        if tokens.is_none() && !is_insecure {
            check_loopback(sources, listening)?;
        }
        let has_certificates = tls.is_some_and(|tls| tls.peer_authority.is_some());
        if tokens.is_some() && is_of_cluster && peer_secret.is_none() && !has_certificates {
            let expected = "--peer-secret FILE with it: the same file on each node of the cluster, of at least 32 random bytes, such as \
                            `head -c 32 /dev/urandom | base64` writes";
            sources.get::<()>("tokens", |_| Err(expected.to_owned()))?;
        }
        if audit_writes && audit.is_none() {
            sources.get::<()>("audit_writes", |_| Err("--audit FILE with it".to_owned()))?;
        }
        Ok(AccessSettings {
            is_in_the_clear: tokens.is_some() && is_open && tls.is_none(),
            tokens,
            peer_secret,
            allow_host: sources.get("allow_host", hosts)?.unwrap_or_default(),
            audit,
            audit_writes,
        })
    }
}

/// Refuses one address for both protocols: only one of them could have it.
pub(super) fn check_ports(
    sources: &Sources,
    listen: &[SocketAddr],
    resp: &[SocketAddr],
) -> Result<(), SettingError> {
    let covers_ipv4 = machine::ipv6_covers_ipv4();
    let pairs = resp.iter().flat_map(|resp| listen.iter().map(move |listen| (*resp, *listen)));
    for (resp, listen) in pairs.filter(|(resp, listen)| is_shared(*resp, *listen, covers_ipv4)) {
        let expected = match [resp, listen].into_iter().find(|address| is_any(*address)) {
            Some(any) if resp != listen => {
                format!("another port than that of --listen, {listen}: {any} takes it at every address")
            }
            _ => "another address or port than that of --listen".to_owned(),
        };
        sources.get::<()>("resp", |_| Err(expected))?;
    }
    Ok(())
}

/// Whether the system gives only one of two addresses away, because they are the same or one of them includes the other: `0.0.0.0`
/// includes all of IPv4, and `[::]` all of IPv6, mostly with IPv4.
fn is_shared(one: SocketAddr, other: SocketAddr, covers_ipv4: bool) -> bool {
    // The system chooses another port for each 0.
    if one.port() != other.port() || one.port() == 0 {
        return false;
    }
    let is_ipv4 = |address: SocketAddr| address.ip().to_canonical().is_ipv4();
    let includes = |any: SocketAddr, other| {
        is_any(any) && (is_ipv4(any) == is_ipv4(other) || (!is_ipv4(any) && covers_ipv4))
    };
    one.ip().to_canonical() == other.ip().to_canonical() || includes(one, other) || includes(other, one)
}

fn is_any(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_unspecified()
}

fn is_reachable(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

/// Refuses to let everybody on the network in, unless that is what somebody said.
fn check_loopback(sources: &Sources, listening: Listening<'_>) -> Result<(), SettingError> {
    for (name, addresses) in listening {
        if addresses.iter().any(is_reachable) {
            let expected = "a loopback address, or tokens: `ladoga token create --tokens tokens.toml --id admin --scopes all` makes one, \
                            and --tokens tokens.toml has it count; or --insecure, by which everybody on the network may do everything";
            sources.get::<()>(name, |_| Err(expected.to_owned()))?;
        }
    }
    Ok(())
}

pub(super) fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("the path of a file".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// Names without ports, separated by commas, or `*`.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let is_name = |name: &String| {
        name == "*"
            || (!name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte)))
    };
    if names.iter().all(is_name) {
        return Ok(names);
    }
    Err("names without ports, separated by commas, such as db.example.com; or * for any name".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_include_each_other_are_shared() {
        let either_way = |one: &str, other: &str, covers_ipv4| {
            let [one, other] = [one, other].map(|text| text.parse().expect("an address"));
            let found = is_shared(one, other, covers_ipv4);
            assert_eq!(found, is_shared(other, one, covers_ipv4));
            found
        };
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("[::]:1", "[::1]:1"),
            ("[::ffff:127.0.0.1]:1", "127.0.0.1:1"),
        ] {
            assert!(either_way(one, other, true) && either_way(one, other, false), "{one} and {other}");
        }
        for other in ["127.0.0.1:1", "0.0.0.0:1"] {
            assert!(either_way("[::]:1", other, true) && !either_way("[::]:1", other, false), "{other}");
        }
        for (one, other) in [
            ("127.0.0.1:1", "127.0.0.2:1"),
            ("127.0.0.1:1", "[::1]:1"),
            ("0.0.0.0:1", "[::1]:1"),
            ("0.0.0.0:1", "127.0.0.1:2"),
            ("0.0.0.0:0", "127.0.0.1:0"),
        ] {
            assert!(!either_way(one, other, true), "{one} and {other}");
        }
    }
}
