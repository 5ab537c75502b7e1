//! Directories of which a node asks whose they are: copies of another node's, and its own that were copied or moved.

use std::fs;
use std::path::PathBuf;

use crate::cluster::{Cluster, launches};
use crate::directories::{
    Restore, assert_has_all, copy, quick, refused, restore, wait_until_whole, write_before, write_meanwhile,
};
use crate::support::{Directory, Ladoga, Node, wait_until};

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
    let status = Ladoga::new(["status", "--url", &url]).run().expect_failure(1, &["answered 503"]);
    let status = status.text();
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
    let status = Ladoga::new(["status", "--url", &url]).run().expect_failure(1, &["answered 503"]);
    let status = status.text();
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
