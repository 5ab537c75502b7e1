//! `ladoga copy`: all records of one store into another, over the public API of both.
//!
//! - `source`: the records of one side in the order of their keys, in lots
//! - `target`: stores a lot, and answers what became of it (`stored`); `large`: values too large for a line, one at a time
//! - `transfer`: reader, senders, and what is done of what they do in any order (`order`)
//! - `state`: how far a copy is, in a file
//! - `verify`: reads both sides and compares (`compare`)

mod compare;
mod large;
mod order;
mod source;
mod state;
mod stored;
mod target;
mod transfer;
mod verify;

use std::ffi::OsStr;
use std::io::{Write, stderr};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use serde_json::Value;

use self::source::Span;
use self::state::{CopyProgress, StateFile};
use self::transfer::transfer;
use self::verify::verify;
use super::cluster::{ClusterReport, report};
use super::patience::Patience;
use super::target::expect_tls;
use super::{Failure, NodeFlags};
use crate::client::{Request, Url};
use crate::copy_arguments::CopyArguments;

const FROM: NodeFlags = NodeFlags {
    url: "--from",
    token_file: "--from-token-file",
    variables: &["LADOGA_FROM_TOKEN", "LADOGA_TOKEN"],
    token_hint: "--from-token-file FILE or LADOGA_FROM_TOKEN",
};
const TO: NodeFlags = NodeFlags {
    url: "--to",
    token_file: "--to-token-file",
    variables: &["LADOGA_TO_TOKEN", "LADOGA_TOKEN"],
    token_hint: "--to-token-file FILE or LADOGA_TO_TOKEN",
};

/// Both ends of a copy.
#[derive(Debug, Clone)]
struct Sides {
    from: Url,
    to: Url,
    patience: Patience,
}

/// Copies, verifies, or both.
pub(crate) fn copy(arguments: &CopyArguments) -> Result<(), Failure> {
    let sides = Sides {
        from: FROM.url(&arguments.from, arguments.from_token_file.as_deref(), &arguments.tls)?,
        to: TO.url(&arguments.to, arguments.to_token_file.as_deref(), &arguments.tls)?,
        patience: Patience::of_flag(Duration::from_secs(u64::from(arguments.patience))),
    };
    expect_tls(&arguments.tls, &[&sides.from, &sides.to])?;
    check_different(&sides)?;
    let key = |key: Option<&OsStr>| key.map(|key| key.as_bytes().to_vec());
    let whole = Span { prefix: key(arguments.prefix.as_deref()), after: key(arguments.after.as_deref()) };
    let mut state = StateFile::open(arguments.resume.as_deref(), &sides, &whole)?;
    for url in [&sides.from, &sides.to] {
        check_node(url)?;
    }
    if !arguments.verify_only {
        check_clusters(&sides)?;
        if !state.progress.is_copied {
            let copied = transfer(&sides, &whole, usize::from(arguments.requests), &mut state);
            copied.map_err(|failure| with_place(failure, &state, &whole))?;
        }
        say_copied(&state.progress);
    }
    if arguments.verify || arguments.verify_only {
        // If it breaks off, only this has to be repeated.
        let compared = verify(&sides, &whole)?;
        state.remove()?;
        return compared.outcome();
    }
    state.remove()
}

/// Refuses a side that is no node. One that does not serve yet may be asked again.
fn check_node(url: &Url) -> Result<(), Failure> {
    let request = Request { method: "GET", target: "/v0/status".to_owned(), fields: Vec::new(), body: None };
    let response = request.send_in_time(url)?;
    match response.status {
        200 => Ok(response.serving().map(drop)?),
        503 => Ok(()),
        _ => Err(Failure::refused(response)),
    }
}

/// Refuses a copy onto itself.
fn check_different(sides: &Sides) -> Result<(), Failure> {
    let Sides { from, to, .. } = sides;
    // An address that cannot be found out is told when it is asked.
    let addresses = |url: &Url| -> Vec<SocketAddr> {
        let found = (url.host.as_str(), url.port).to_socket_addrs();
        found.map(|found| found.map(reached).collect()).unwrap_or_default()
    };
    let (those, others) = (addresses(from), addresses(to));
    if (&from.host, from.port) != (&to.host, to.port) && !those.iter().any(|one| others.contains(one)) {
        return Ok(());
    }
    Err(Failure::Usage(format!("--from and --to are the same node, {from}: expected two different stores")))
}

/// Refuses a copy from one node of a cluster to another. Nodes that do not tell their clusters are taken for different ones.
fn check_clusters(sides: &Sides) -> Result<(), Failure> {
    let (Ok(ClusterReport::Of(from)), Ok(ClusterReport::Of(to))) = (report(&sides.from), report(&sides.to))
    else {
        return Ok(());
    };
    if !is_of_cluster(&to, &from) {
        return Ok(());
    }
    let Sides { from, to, .. } = sides;
    Err(Failure::Usage(format!(
        "--from is {from} and --to is {to}, nodes of the same cluster: expected two different stores"
    )))
}

/// Whether a node is one of those that another one reports. Clusters may use the same names; each directory has a session of its own.
fn is_of_cluster(node: &Value, other: &Value) -> bool {
    let Some(session) = node["replica_state"]["session"].as_str() else { return false };
    let peers = other["nodes"].as_array().into_iter().flatten();
    let mut peers = peers.filter(|peer| peer["url"] == node["node"]);
    peers.any(|peer| peer["session"] == session)
}

/// Where a connection to an address goes: the address of all interfaces is this machine.
fn reached(address: SocketAddr) -> SocketAddr {
    let loopback = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(loopback, address.port())
}

/// A failure, with how far the copy went before, and how to go on.
fn with_place(failure: Failure, state: &StateFile, whole: &Span) -> Failure {
    let Failure::Failed(reason) = failure else { return failure };
    let (records, after) = (state.progress.records, state.progress.after.as_ref());
    let place = after.map_or("no key is known to be done".to_owned(), |key| {
        format!("all keys up to '{}' are", key.escape_ascii())
    });
    let typed = after.filter(|_| whole.prefix.is_none()).and_then(|key| str::from_utf8(key).ok());
    let typed = typed.filter(|key| !key.chars().any(|char| char.is_control() || char == '\''));
    let how = match (state.path(), typed) {
        (Some(path), _) => format!("repeat the command with --resume {} to go on from there", path.display()),
        (None, Some(key)) => format!("add --after='{key}' to go on from there"),
        (None, None) => "repeat the command, with --resume FILE to be able to go on after a break".to_owned(),
    };
    Failure::Failed(format!("{reason}; {records} records are copied, {place}: {how}"))
}

fn say_copied(progress: &CopyProgress) {
    let CopyProgress { records, expired, before, .. } = progress;
    let earlier = if *before == 0 { String::new() } else { format!(", {before} of them before the break") };
    let left_out = if *expired == 0 { String::new() } else { format!("; {expired} had expired") };
    _ = writeln!(stderr(), "{records} records copied{earlier}{left_out}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_of_a_cluster_that_knows_its_name_and_its_session() {
        let node = |session| json!({ "node": "http://b", "replica_state": { "session": session } });
        let own = json!({ "url": "http://a", "state": "self" });
        let other = json!({ "nodes": [own, { "url": "http://b", "session": "07" }] });
        assert!(is_of_cluster(&node("07"), &other));
        // Another cluster whose nodes have the same names.
        assert!(!is_of_cluster(&node("08"), &other));
        assert!(!is_of_cluster(&json!({ "node": "http://b", "replica_state": null }), &other));
        assert!(!is_of_cluster(&node("07"), &json!({})));
    }
}
