//! Directories that were rolled back to an older state. A node that starts from one has lost what was acknowledged since, and
//! must not vouch for it.

use crate::cluster::{Cluster, launches};
use crate::directories::{
    OVERWRITTEN, Restore, assert_has_all, copy, quick, refused, restore, wait_until_all_have_spoken,
    wait_until_whole, write_before, write_meanwhile,
};
use crate::support::{Directory, Node, wait_until};

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
    // Neither of the two has what was acknowledged.
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

/// A snapshot of all files at one moment, of a node that serves at once.
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
        // Some of the writes go through the node itself.
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
