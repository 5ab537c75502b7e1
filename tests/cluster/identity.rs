//! Directories that are not what they were: copies of another node's, and older states of a node's own. Whoever starts
//! from one has lost what was acknowledged since, and must not vouch for it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cluster::{Cluster, launches};
use crate::support::{Directory, Ladoga, Launch, Node, Response, wait_until};

const OVERWRITTEN: u64 = 40;
const CREATED: u64 = 40;
const DELETED: u64 = 20;

/// Copies a directory with everything in it, as `cp -a` does: the files are others.
fn copy(from: &Path, to: &Path) {
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
enum Restore {
    /// File by file.
    Copied,
    /// As a snapshot of the volume does: the files are the same ones.
    InPlace,
    /// What the engine's checkpoint has: the store, and nothing of the cluster.
    StoreOnly,
}

fn restore(backup: &Path, data: &Path, how: Restore) {
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
type Known = BTreeMap<String, Option<Vec<u8>>>;

/// Keys of which some are going to be overwritten, and some deleted.
fn write_before(cluster: &Cluster, replicas: &str) -> Known {
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
fn write_meanwhile(cluster: &Cluster, known: &mut Known, replicas: &str, through: usize) {
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

/// What a request may answer: what was acknowledged last, or that it cannot say.
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
fn refused(cluster: &Cluster, known: &Known, nodes: &[usize], replicas: &str) -> usize {
    let mut refused = 0;
    for (n, (key, expected)) in known.iter().enumerate() {
        let response = cluster.request(nodes[n % nodes.len()], "GET", key, replicas, None);
        assert_not_wrong(&response, key, expected.as_ref());
        refused += usize::from(response.status >= 500);
    }
    refused
}

fn wait_until_whole(cluster: &Cluster, node: usize) {
    wait_until("a node that is whole", || cluster.report(node)["replica_state"]["complete"] == true);
}

/// What a node has itself, once it is whole, is what was acknowledged.
#[track_caller]
fn assert_has_all(cluster: &Cluster, node: usize, known: &Known) {
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

fn quick(launches: Vec<Launch>) -> Vec<Launch> {
    // A peer that is down is known to be at once; one that is frozen after this.
    launches.into_iter().map(|launch| launch.env("LADOGA_PEER_TIMEOUT_MS", "3000")).collect()
}

/// Waits until each node is whole, and each other one has on its disk that it has heard it.
fn wait_until_all_have_spoken(cluster: &Cluster) {
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

/// A node of three is brought back to an older state, with one other node that missed what came after it.
fn an_older_state_does_not_vouch(how: Restore) {
    let mut cluster = Cluster::launch(quick(launches(3)));
    let mut known = write_before(&cluster, "3/3");
    let backup = Directory::new();
    let backup = backup.path().join("backup");
    cluster.nodes[2].stop();
    copy(cluster.nodes[2].data(), &backup);
    cluster.nodes[2].start_again();
    wait_until_all_have_spoken(&cluster);
    cluster.nodes[1].kill();
    write_meanwhile(&cluster, &mut known, "2/3", 0);
    cluster.nodes[2].kill();
    cluster.nodes[0].kill();
    restore(&backup, cluster.nodes[2].data(), how);
    cluster.nodes[1].start_again();
    cluster.nodes[2].start_again();
    // Of the two, none has what was acknowledged.
    wait_until("nodes that have met", || {
        let response = cluster.request(1, "GET", "over0", "1/3", None);
        response.status < 500
    });
    assert_eq!(refused(&cluster, &known, &[1, 2], "2/3"), known.len());
    assert_ne!(cluster.report(2)["replica_state"]["complete"], true);
    cluster.nodes[0].start_again();
    wait_until("requests that succeed again", || refused(&cluster, &known, &[0, 1, 2], "2/3") == 0);
    wait_until_whole(&cluster, 2);
    assert_eq!(refused(&cluster, &known, &[0, 1, 2], "2/3"), 0);
    let log = cluster.nodes[2].log();
    assert!(log.contains("lacks writes that") || how == Restore::StoreOnly, "{log}");
    assert_has_all(&cluster, 2, &known);
    cluster.put(2, "after", "3/3", b"after");
    assert_eq!(cluster.get(2, "after", "1/3"), Some(b"after".to_vec()));
}

#[test]
fn a_node_that_was_restored_from_its_own_backup_does_not_vouch() {
    an_older_state_does_not_vouch(Restore::Copied);
}

#[test]
fn a_node_whose_volume_was_rolled_back_does_not_vouch() {
    an_older_state_does_not_vouch(Restore::InPlace);
}

#[test]
fn a_node_that_was_restored_from_its_store_alone_does_not_vouch() {
    an_older_state_does_not_vouch(Restore::StoreOnly);
}

/// A snapshot of all files at one moment, of a node that goes on at once.
#[test]
fn a_node_that_was_restored_from_a_snapshot_reads_right_at_once() {
    for how in [Restore::Copied, Restore::InPlace] {
        let mut cluster = Cluster::start(3);
        let mut known = write_before(&cluster, "3/3");
        let backup = Directory::new();
        let backup = backup.path().join("backup");
        cluster.nodes[2].signal("STOP");
        copy(cluster.nodes[2].data(), &backup);
        cluster.nodes[2].signal("CONT");
        // Some of it through the node itself.
        write_meanwhile(&cluster, &mut known, "3/3", 0);
        for n in 0..OVERWRITTEN {
            let key = format!("over{n}");
            cluster.put(2, &key, "2/3", b"newest");
            known.insert(key, Some(b"newest".to_vec()));
        }
        cluster.nodes[2].kill();
        restore(&backup, cluster.nodes[2].data(), how);
        cluster.nodes[2].start_again();
        refused(&cluster, &known, &[0, 1, 2], "2/3");
        wait_until("requests that succeed again", || refused(&cluster, &known, &[0, 1, 2], "2/3") == 0);
        wait_until_whole(&cluster, 2);
        assert!(cluster.nodes[2].log().contains("lacks writes that"), "{}", cluster.nodes[2].log());
        assert_has_all(&cluster, 2, &known);
    }
}

#[test]
fn a_copy_of_another_nodes_directory_does_not_vouch() {
    let mut cluster = Cluster::launch(quick(launches(3)));
    let mut known = write_before(&cluster, "3/3");
    cluster.nodes[1].kill();
    write_meanwhile(&cluster, &mut known, "2/3", 0);
    cluster.nodes[2].stop();
    cluster.nodes[0].kill();
    // The node that missed what was acknowledged is copied over the one that has it.
    fs::remove_dir_all(cluster.nodes[2].data()).expect("a data directory");
    copy(cluster.nodes[1].data(), cluster.nodes[2].data());
    cluster.nodes[1].start_again();
    cluster.nodes[2].start_again();
    let log = cluster.nodes[2].log();
    assert!(log.contains("belongs to") && log.contains(&cluster.nodes[1].url()), "{log}");
    wait_until("nodes that have met", || cluster.request(1, "GET", "over0", "1/3", None).status < 500);
    assert_eq!(refused(&cluster, &known, &[1, 2], "2/3"), known.len());
    let url = cluster.nodes[2].url();
    let status = Ladoga::new(["status", "--url", &url]).run().expect_success().text().to_owned();
    assert!(status.contains("do not count"), "{status}");
    cluster.nodes[0].start_again();
    wait_until_whole(&cluster, 2);
    wait_until("requests that succeed again", || refused(&cluster, &known, &[0, 1, 2], "2/3") == 0);
    assert_has_all(&cluster, 2, &known);
    cluster.nodes[2].stop();
    let data = cluster.nodes[2].data().display().to_string();
    Ladoga::new(["check", &data]).run().expect_success();
    // It is its own from now on.
    cluster.nodes[2].start_again();
    assert_eq!(cluster.nodes[2].log().matches("belongs to").count(), 1);
}

/// With two nodes, each is all that the other has.
#[test]
fn a_node_of_two_that_was_restored_does_not_deny_what_it_acknowledged() {
    let mut cluster = Cluster::launch(quick(launches(2)));
    let mut known = write_before(&cluster, "2/2");
    let backup = Directory::new();
    let backup = backup.path().join("backup");
    cluster.nodes[1].stop();
    copy(cluster.nodes[1].data(), &backup);
    cluster.nodes[1].start_again();
    wait_until_all_have_spoken(&cluster);
    write_meanwhile(&cluster, &mut known, "2/2", 0);
    cluster.nodes[1].stop();
    restore(&backup, cluster.nodes[1].data(), Restore::Copied);
    cluster.nodes[1].start_again();
    refused(&cluster, &known, &[0, 1], "1/2");
    wait_until("requests that succeed again", || refused(&cluster, &known, &[0, 1], "1/2") == 0);
    wait_until_whole(&cluster, 1);
    assert_has_all(&cluster, 1, &known);
}

#[test]
fn a_restored_node_that_is_alone_says_what_it_waits_for() {
    let mut cluster = Cluster::launch(quick(launches(3)));
    let known = write_before(&cluster, "3/3");
    for node in &mut cluster.nodes {
        node.stop();
    }
    let backup = Directory::new();
    let backup = backup.path().join("backup");
    copy(cluster.nodes[2].data(), &backup);
    restore(&backup, cluster.nodes[2].data(), Restore::Copied);
    cluster.nodes[2].start_again();
    let response = cluster.request(2, "GET", "over0", "1/3", None);
    assert!(matches!(response.status, 503 | 504), "{response:?}");
    assert!(response.text().contains("data directory"), "{}", response.text());
    assert!(cluster.nodes[2].log().contains("was copied or restored"), "{}", cluster.nodes[2].log());
    let others: Vec<String> = cluster.nodes[..2].iter().map(Node::url).collect();
    let url = cluster.nodes[2].url();
    let status = Ladoga::new(["status", "--url", &url]).run().expect_success().text().to_owned();
    assert!(others.iter().all(|other| status.contains(other)) && status.contains("waits for"), "{status}");
    // One is not enough: the other may know more.
    cluster.nodes[0].start_again();
    wait_until("an answer of the one", || {
        let response = cluster.request(0, "GET", "over0", "2/3", None);
        assert!(response.status >= 500, "{response:?}");
        response.text().contains("have not yet confirmed")
    });
    cluster.nodes[1].start_again();
    wait_until_whole(&cluster, 2);
    // Nothing was lost.
    assert!(!cluster.nodes[2].log().contains("lacks writes that"), "{}", cluster.nodes[2].log());
    assert_eq!(refused(&cluster, &known, &[2], "3/3"), 0);
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    assert_eq!(refused(&cluster, &known, &[2], "1/3"), 0);
    // And it is not asked about once more.
    wait_until("a directory that is claimed", || {
        cluster.nodes[2].log().contains("has all acknowledged writes")
    });
    cluster.nodes[2].crash();
    assert_eq!(refused(&cluster, &known, &[2], "1/3"), 0);
}

#[test]
fn a_directory_that_was_moved_is_the_same_one() {
    let mut cluster = Cluster::launch(quick(launches(3)));
    let known = write_before(&cluster, "3/3");
    for node in &mut cluster.nodes {
        node.stop();
    }
    let data = cluster.nodes[2].data().to_path_buf();
    let elsewhere: PathBuf = data.with_file_name("elsewhere");
    fs::rename(&data, &elsewhere).expect("a directory to move");
    fs::rename(&elsewhere, &data).expect("a directory to move back");
    cluster.nodes[2].start_again();
    assert_eq!(cluster.report(2)["replica_state"]["complete"], true);
    assert_eq!(refused(&cluster, &known, &[2], "1/3"), 0);
    assert!(!cluster.nodes[2].log().contains("restored"), "{}", cluster.nodes[2].log());
}

#[test]
fn a_cluster_that_was_moved_by_copying_comes_up_by_itself() {
    let mut cluster = Cluster::start(3);
    let mut known = write_before(&cluster, "3/3");
    write_meanwhile(&cluster, &mut known, "2/3", 1);
    for node in &mut cluster.nodes {
        node.stop();
        let moved = node.data().with_file_name("moved");
        copy(node.data(), &moved);
        fs::remove_dir_all(node.data()).expect("a data directory");
        copy(&moved, node.data());
    }
    cluster.nodes.iter_mut().for_each(Node::spawn);
    cluster.nodes.iter_mut().for_each(Node::wait_until_it_serves);
    (0..3).for_each(|node| wait_until_whole(&cluster, node));
    assert_eq!(refused(&cluster, &known, &[0, 1, 2], "2/3"), 0);
    for node in &cluster.nodes {
        assert!(!node.log().contains("lacks writes that"), "{}", node.log());
    }
}

#[test]
fn a_cluster_that_was_restored_from_backups_of_different_ages_comes_up_and_converges() {
    let mut cluster = Cluster::start(3);
    let backups = Directory::new();
    let backup = |node: usize| backups.path().join(node.to_string());
    write_before(&cluster, "3/3");
    for node in 0..3 {
        cluster.nodes[node].stop();
        copy(cluster.nodes[node].data(), &backup(node));
        cluster.nodes[node].start_again();
        cluster.wait_until_all_answer();
        for n in 0..10 {
            cluster.put(node, &format!("round{node}-{n}"), "3/3", b"value");
        }
    }
    for n in 0..10 {
        cluster.put(0, &format!("late{n}"), "3/3", b"value");
    }
    cluster.nodes.iter_mut().for_each(Node::stop);
    for node in 0..3 {
        restore(&backup(node), cluster.nodes[node].data(), Restore::Copied);
    }
    cluster.nodes.iter_mut().for_each(Node::spawn);
    cluster.nodes.iter_mut().for_each(Node::wait_until_it_serves);
    (0..3).for_each(|node| wait_until_whole(&cluster, node));
    // What the newest of the backups has, all have: what came before it was taken.
    wait_until("what the newest has", || {
        (0..3).all(|node| {
            let has = |round: usize| cluster.get(node, &format!("round{round}-9"), "1/3").is_some();
            has(0) && has(1) && !has(2)
        })
    });
    assert_eq!(cluster.get(1, "late3", "3/3"), None);
    cluster.put(2, "after", "3/3", b"after");
    assert_eq!(cluster.get(0, "after", "2/3"), Some(b"after".to_vec()));
}
