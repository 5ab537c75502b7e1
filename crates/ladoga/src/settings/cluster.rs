use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use ladoga_node::peers::{Membership, NodeList};

use super::SettingError;
use super::parse::HostAndPort;
use super::sources::Sources;
use crate::client::Url;

/// Reads the nodes of the cluster, and which of them this one is; `None` if it stands alone.
pub(super) fn membership(
    sources: &Sources,
    listen: &HostAndPort,
) -> Result<Option<Membership>, SettingError> {
    let urls = sources.get("cluster", urls)?;
    let advertised = sources.get("advertise", |text| advertised(text, urls.as_deref()))?;
    let Some(urls) = urls else { return Ok(None) };
    let own = match advertised {
        Some(url) => url,
        None => sources
            .get("cluster", |_| find_own(&urls, listen))?
            .expect("the setting is there, as its URLs are"),
    };
    if urls.len() == 1 {
        return Ok(None);
    }
    let nodes = NodeList::first(urls.iter().map(name)).expect("checked as the setting was read");
    let own = nodes.find(&name(&own)).expect("it is one of them");
    let address = |known: &str| {
        let url = urls.iter().find(|url| name(url) == known).expect("the list is made of these");
        (url.host.clone(), url.port)
    };
    let addresses = nodes.iter().map(|(_, node)| address(&node.name)).collect();
    Ok(Some(Membership { nodes, own, addresses }))
}

/// A node is called the same with TLS and without it: its keys stay where they are when a cluster goes over.
fn name(url: &Url) -> String {
    format!("http://{}", url.authority())
}

pub(super) fn urls(text: &str) -> Result<Vec<Url>, String> {
    let expected =
        || "the URLs of all nodes, separated by commas, such as http://a:8080,http://b:8080".to_owned();
    if text.contains(char::is_whitespace) {
        return Err(format!("{}: without a space", expected()));
    }
    let urls = text.split(',').map(|url| Url::parse(url).ok_or_else(expected));
    let urls = urls.collect::<Result<Vec<_>, _>>()?;
    if let Some(url) = urls.iter().find(|url| url.port == 0) {
        return Err(format!("{}: nobody can connect to {url}", expected()));
    }
    NodeList::first(urls.iter().map(name)).map_err(|error| format!("{}: {error}", expected()))?;
    Ok(urls)
}

const ADVERTISE_EXPECTED: &str = "one of the URLs of --cluster, such as http://127.0.0.1:8080";

/// A URL of a node, of whichever cluster.
pub(super) fn url(text: &str) -> Result<Url, String> {
    Url::parse(text).ok_or_else(|| ADVERTISE_EXPECTED.to_owned())
}

fn advertised(text: &str, urls: Option<&[Url]>) -> Result<Url, String> {
    let expected = ADVERTISE_EXPECTED;
    match (Url::parse(text), urls) {
        (Some(url), Some(urls)) if urls.contains(&url) => Ok(url),
        (_, Some(urls)) => Err(format!("{expected}: the cluster is {}", join(urls))),
        (_, None) => Err(format!("{expected}; but --cluster is not set")),
    }
}

/// The node with the port that this one listens on, on this machine.
fn find_own(urls: &[Url], listen: &HostAndPort) -> Result<Url, String> {
    let same_port: Vec<&Url> = urls.iter().filter(|url| url.port == listen.port).collect();
    let expected = format!("the URL of this node in the list, one with the port {}", listen.port);
    match same_port[..] {
        [] => Err(format!("{expected} of --listen")),
        // With one node on its own there is nothing to mistake it for.
        [url] if urls.len() == 1 || url.host == listen.host => Ok(url.clone()),
        _ => {
            let ours: Vec<&Url> = same_port.into_iter().filter(|url| is_this_machine(url)).collect();
            match ours[..] {
                [url] => Ok(url.clone()),
                [] => Err(format!(
                    "{expected} and a host of this machine; or use --advertise to say which URL this node is"
                )),
                _ => Err(format!("--advertise, to say which of {} this node is", join_refs(&ours))),
            }
        }
    }
}

/// Whether a host is this machine: whether one of its addresses can be bound to.
fn is_this_machine(url: &Url) -> bool {
    let addresses = (url.host.as_str(), 0).to_socket_addrs();
    let is_ours = |address: IpAddr| UdpSocket::bind((address, 0)).is_ok();
    addresses.is_ok_and(|mut addresses| addresses.any(|address| is_ours(address.ip())))
}

fn join(urls: &[Url]) -> String {
    join_refs(&urls.iter().collect::<Vec<_>>())
}

fn join_refs(urls: &[&Url]) -> String {
    urls.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::ServeFlags;

    /// How many nodes there are, and the URL of this one.
    fn read(cluster: Option<&str>, advertise: Option<&str>) -> Result<Option<(usize, String)>, String> {
        let flags = ServeFlags {
            cluster: cluster.map(str::to_owned),
            advertise: advertise.map(str::to_owned),
            ..ServeFlags::default()
        };
        let sources = Sources::of(&flags, &[], "").expect("no file");
        let listen = HostAndPort { host: "127.0.0.1".into(), port: 8080 };
        let membership = membership(&sources, &listen).map_err(|error| error.to_string())?;
        Ok(membership.map(|found| (found.nodes.len(), found.nodes.name(found.own).to_owned())))
    }

    #[test]
    fn one_url_that_is_this_node_is_a_node_on_its_own() {
        assert_eq!(read(None, None), Ok(None));
        assert_eq!(read(Some("http://127.0.0.1:8080"), None), Ok(None));
        assert_eq!(read(Some("http://node:8080/"), Some("http://node:8080")), Ok(None));
    }

    #[test]
    fn a_node_finds_itself_by_its_port_and_host_or_is_told() {
        let found = |url: &str| Ok(Some((2, url.to_owned())));
        let own = "http://127.0.0.1:8080";
        assert_eq!(read(Some("http://127.0.0.1:8081,http://127.0.0.1:8080"), None), found(own));
        assert_eq!(read(Some("http://192.0.2.1:8080,http://127.0.0.1:8080"), None), found(own));
        let two = Some("http://a.invalid:8080,http://b.invalid:8080");
        assert_eq!(read(two, Some("http://b.invalid:8080")), found("http://b.invalid:8080"));
        let error = read(two, None).expect_err("neither is here");
        assert!(error.contains("--advertise"), "{error}");
        let error = read(Some("http://127.0.0.1:1,http://127.0.0.1:2"), None).expect_err("no such port");
        assert!(error.contains("the port 8080 of --listen"), "{error}");
    }

    #[test]
    fn what_is_no_cluster_is_refused() {
        for cluster in [
            "",
            "nonsense",
            "http://127.0.0.1:8081",
            "http://127.0.0.1:8080,,",
            "http://127.0.0.1:8080,http://127.0.0.1:0",
            "http://127.0.0.1:8080,http://127.0.0.1:8080",
        ] {
            assert!(read(Some(cluster), None).is_err(), "{cluster}");
        }
        let error = read(Some("http://a:8080, http://b:8080"), None).expect_err("a space");
        assert!(error.ends_with("such as http://a:8080,http://b:8080: without a space"), "{error}");
        assert!(read(None, Some("http://127.0.0.1:8080")).is_err());
        assert!(read(Some("http://a:8080"), Some("http://b:8080")).is_err());
    }
}
