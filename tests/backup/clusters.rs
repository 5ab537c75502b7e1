use std::fs;
use std::path::Path;

use crate::cluster::{Cluster, launches, launches_at};
use crate::steps::{backup, create, created, restore, text};
use crate::support::{Directory, Ladoga, Launch, Node, entity, value, wait_until};

const KEYS: u64 = 120;

fn key(index: u64) -> String {
    format!("key{index:03}")
}

/// Values, replaced values, a large one, deletions, one that expires and one with a single copy.
fn fill(cluster: &Cluster) {
    let nodes = cluster.nodes.len();
    for index in 0..KEYS {
        cluster.put(index as usize % nodes, &key(index), "", &value(index, 200));
    }
    for index in (0..KEYS).step_by(7) {
        cluster.put(0, &key(index), "", &value(index + 1_000, 100));
    }
    for index in (0..KEYS).step_by(10) {
        cluster.delete(1, &key(index), "");
    }
    cluster.put(1, "large", "", &value(5, 700_000));
    cluster.put(2, "single", "1/1", b"one copy");
    let expiring = format!("{}&ttl=1h", entity("expiring"));
    assert_eq!(cluster.connect(0).request("PUT", &expiring, Some(b"for an hour")).status, 201);
}

fn expected(index: u64) -> Option<Vec<u8>> {
    if index.is_multiple_of(10) {
        return None;
    }
    Some(if index.is_multiple_of(7) { value(index + 1_000, 100) } else { value(index, 200) })
}

/// All of it is there, by requests of these replicas through the node at `url`.
fn expect_all(cluster: &Cluster, node: usize, replicas: &str) {
    for index in 0..KEYS {
        assert!(cluster.get(node, &key(index), replicas) == expected(index), "{} of {node}", key(index));
    }
    assert!(cluster.get(node, "large", replicas) == Some(value(5, 700_000)));
    assert_eq!(cluster.get(node, "single", "1/1"), Some(b"one copy".to_vec()));
    let expiring = cluster.connect(node).request("GET", &entity("expiring"), None);
    assert!(expiring.header("ladoga-expires").is_some(), "{expiring:?}");
}

/// A cluster of so many nodes, each on a directory with the same backup.
fn restored(repository: &Path, directory: &Directory, count: usize) -> Cluster {
    let data = |node: usize| directory.path().join(format!("node-{node}-of-{count}"));
    for node in 0..count {
        restore(repository, &data(node), &[]).expect_success();
    }
    Cluster::launch(launches_at(count, |launch, node| launch.data(&data(node))))
}

#[test]
fn three_nodes_become_one_and_five() {
    let (cluster, directory) = (Cluster::start(3), Directory::new());
    let repository = directory.path().join("backups");
    fill(&cluster);
    created(&repository, &cluster.nodes[1].url());
    for index in 0..KEYS {
        cluster.put(0, &key(index), "", b"later");
    }
    let listed = backup("list", &repository, &[]).expect_success();
    assert!(cluster.nodes.iter().all(|node| listed.text().contains(&node.url())), "{listed:?}");
    backup("verify", &repository, &[]).expect_success();
    drop(cluster);
    let data = directory.path().join("one");
    restore(&repository, &data, &[]).expect_success();
    let one = Cluster { nodes: vec![Launch::new().data(&data).start()] };
    expect_all(&one, 0, "");
    one.put(0, &key(0), "", b"again");
    assert_eq!(one.get(0, &key(0), ""), Some(b"again".to_vec()), "newer than the deletion that was restored");
    drop(one);
    let five = restored(&repository, &directory, 5);
    for node in [0, 2, 4] {
        expect_all(&five, node, "");
        expect_all(&five, node, "1/5");
    }
    for index in 0..KEYS {
        five.put(1, &key(index), "5/5", b"new");
        assert_eq!(five.get(3, &key(index), "1/5"), Some(b"new".to_vec()));
    }
}

#[test]
fn the_same_nodes_get_their_own_files_back() {
    let (mut cluster, directory) = (Cluster::start(3), Directory::new());
    let repository = directory.path().join("backups");
    fill(&cluster);
    created(&repository, &cluster.nodes[0].url());
    for node in &mut cluster.nodes {
        node.stop();
        fs::remove_dir_all(node.data()).expect("a data directory to lose");
        restore(&repository, node.data(), &["--node", &node.url()]).expect_success();
    }
    for node in &mut cluster.nodes {
        node.spawn();
    }
    cluster.nodes.iter_mut().for_each(Node::wait_until_it_serves);
    cluster.wait_until_all_answer();
    expect_all(&cluster, 0, "");
    expect_all(&cluster, 2, "");
}

#[test]
fn five_nodes_become_one() {
    let (cluster, directory) = (Cluster::start(5), Directory::new());
    let repository = directory.path().join("backups");
    fill(&cluster);
    created(&repository, &cluster.nodes[4].url());
    let data = directory.path().join("one");
    restore(&repository, &data, &[]).expect_success();
    expect_all(&Cluster { nodes: vec![Launch::new().data(&data).start()] }, 0, "");
}

#[test]
fn a_backup_does_without_a_node_if_a_majority_acknowledges_writes() {
    let (mut cluster, directory) = (Cluster::launch(launches(3)), Directory::new());
    let repository = directory.path().join("backups");
    cluster.nodes[2].kill();
    for index in 0..KEYS {
        cluster.put(0, &key(index), "2/3", &value(index, 200));
    }
    let gone = cluster.nodes[2].url();
    let made = create(&repository, &cluster.nodes[0].url()).expect_success();
    assert!(made.stderr.contains(&format!("{gone} is not in the backup")), "{made:?}");
    let listed = backup("list", &repository, &[]).expect_success();
    assert!(listed.text().contains(&format!("without {gone}")), "{listed:?}");
    // Who writes with one acknowledgement needs all nodes.
    let url = cluster.nodes[0].url();
    Ladoga::new(["backup", "create", "--to", &text(&repository), "--url", &url, "--ack", "1"])
        .run()
        .expect_failure(1, &["1 of 3 nodes is missing", &gone]);
    Ladoga::new(["backup", "create", "--to", &text(&repository), "--url", &url, "--ack", "4"])
        .run()
        .expect_failure(2, &["--ack", "1 to 3"]);
    cluster.nodes[1].kill();
    create(&repository, &url).expect_failure(1, &["2 of 3 nodes are missing"]);
    let data = directory.path().join("one");
    restore(&repository, &data, &[]).expect_success();
    let one = Launch::new().data(&data).start();
    for index in 0..KEYS {
        assert!(one.connect().value(key(index)) == Some(value(index, 200)), "{index}");
    }
    cluster.nodes[1].start_again();
    cluster.nodes[2].start_again();
    wait_until("a backup with all nodes", || create(&repository, &url).stderr.is_empty());
}
