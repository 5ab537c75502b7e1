//! Data directories that are copied and brought back, and what a cluster must still know of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::cluster::Cluster;
use crate::support::{Launch, Response, wait_until};

pub(crate) const OVERWRITTEN: u64 = 40;
const CREATED: u64 = 40;
const DELETED: u64 = 20;

/// Copies a directory with everything in it, as `cp -a` does: the files are others.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory to copy") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// How a state of a directory is brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restore {
    /// File by file.
    Copied,
    /// As a snapshot of the volume does: the files are the same ones.
    InPlace,
    /// What the engine's checkpoint has: the store, and nothing of the cluster.
    StoreOnly,
}

pub(crate) fn restore(backup: &Path, data: &Path, how: Restore) {
    if how != Restore::InPlace {
        fs::remove_dir_all(data).expect("a data directory");
        copy(backup, data);
        if how == Restore::StoreOnly {
            fs::remove_file(data.join("nodes")).expect("a list of nodes");
            fs::remove_file(data.join("replica-state")).expect("the replica state");
            fs::remove_dir_all(data.join("hints")).expect("hints");
        }
        return;
    }
    // The file that knows itself stays.
    let identity = fs::read(backup.join("nodes")).expect("an identity");
    assert_eq!(fs::read(data.join("nodes")).expect("an identity"), identity);
    for entry in fs::read_dir(data).expect("a data directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            fs::remove_dir_all(path).expect("a directory to remove");
        } else if !path.ends_with("nodes") {
            fs::remove_file(path).expect("a file to remove");
        }
    }
    let kept = data.join("kept");
    fs::rename(data.join("nodes"), &kept).expect("a file to keep");
    copy(backup, data);
    fs::rename(&kept, data.join("nodes")).expect("the same file");
}

/// What was acknowledged last of each key.
pub(crate) type Known = BTreeMap<String, Option<Vec<u8>>>;

/// Keys of which some are going to be overwritten, and some deleted.
pub(crate) fn write_before(cluster: &Cluster, replicas: &str) -> Known {
    let mut known = Known::new();
    for n in 0..OVERWRITTEN {
        known.insert(format!("over{n}"), Some(b"old".to_vec()));
    }
    for n in 0..DELETED {
        known.insert(format!("gone{n}"), Some(b"old".to_vec()));
    }
    for key in known.keys() {
        cluster.put(0, key, replicas, b"old");
    }
    known
}

/// What happens to them, and to others, through a node.
pub(crate) fn write_meanwhile(cluster: &Cluster, known: &mut Known, replicas: &str, through: usize) {
    for n in 0..OVERWRITTEN {
        let key = format!("over{n}");
        cluster.put(through, &key, replicas, b"new");
        known.insert(key, Some(b"new".to_vec()));
    }
    for n in 0..CREATED {
        let key = format!("made{n}");
        cluster.put(through, &key, replicas, b"made");
        known.insert(key, Some(b"made".to_vec()));
    }
    for n in 0..DELETED {
        let key = format!("gone{n}");
        cluster.delete(through, &key, replicas);
        known.insert(key, None);
    }
}

/// A request answers what was acknowledged last, or that the node cannot tell.
#[track_caller]
fn assert_not_wrong(response: &Response, key: &str, expected: Option<&Vec<u8>>) {
    match response.status {
        200 => assert_eq!(Some(&response.body), expected, "{key}"),
        404 => assert_eq!(None, expected, "{key} is denied"),
        503 | 504 => {}
        _ => panic!("{key}: {response:?}"),
    }
}

/// Asks these nodes for each key. Answers how many were refused.
#[track_caller]
pub(crate) fn refused(cluster: &Cluster, known: &Known, nodes: &[usize], replicas: &str) -> usize {
    let mut refused = 0;
    for (n, (key, expected)) in known.iter().enumerate() {
        let response = cluster.request(nodes[n % nodes.len()], "GET", key, replicas, None);
        assert_not_wrong(&response, key, expected.as_ref());
        refused += usize::from(response.status >= 500);
    }
    refused
}

pub(crate) fn wait_until_whole(cluster: &Cluster, node: usize) {
    wait_until("a node that is whole", || cluster.report(node)["replica_state"]["complete"] == true);
}

/// What a node has itself, once it is whole, is what was acknowledged.
#[track_caller]
pub(crate) fn assert_has_all(cluster: &Cluster, node: usize, known: &Known) {
    let own = cluster.connect(node).request("GET", "/v0/entities?start=%00", None).records();
    let expected = known.iter().filter_map(|(key, value)| Some((key.clone().into_bytes(), value.clone()?)));
    let expected: Vec<_> = expected.collect();
    let text = |records: &[(Vec<u8>, Vec<u8>)]| {
        let text = |(key, value): &(Vec<u8>, Vec<u8>)| {
            format!("{}={}", String::from_utf8_lossy(key), String::from_utf8_lossy(value))
        };
        records.iter().map(text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(text(&own), text(&expected), "of node {node}");
}

pub(crate) fn quick(launches: Vec<Launch>) -> Vec<Launch> {
    // A peer that is down is known to be at once; one that is frozen after this.
    launches.into_iter().map(|launch| launch.env("LADOGA_PEER_TIMEOUT_MS", "3000")).collect()
}

/// Waits until each node is whole, and each other node has recorded on its disk that it has met it.
pub(crate) fn wait_until_all_have_spoken(cluster: &Cluster) {
    cluster.wait_until_all_answer();
    for node in 0..cluster.nodes.len() {
        wait_until_whole(cluster, node);
        let session = cluster.report(node)["replica_state"]["session"].clone();
        let url = cluster.nodes[node].url();
        for other in (0..cluster.nodes.len()).filter(|&other| other != node) {
            wait_until("a node that is remembered", || {
                let nodes = cluster.report(other)["nodes"].as_array().expect("a list").clone();
                let node = nodes.into_iter().find(|node| node["url"] == url).expect("every node is there");
                node["session"] == session
            });
        }
    }
}
