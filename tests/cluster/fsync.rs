//! `fsync=` in a cluster: what each replica does before it answers.

use crate::cluster::{Cluster, launches, target};
use crate::support::{Launch, assert_refusal, value};

const ALL: &str = "3/3";

fn start(fsync: &str) -> Cluster {
    let with_fsync = |launch: Launch| launch.flag("--fsync", fsync);
    Cluster::launch(launches(3).into_iter().map(with_fsync).collect())
}

/// A number of each node.
fn each(cluster: &Cluster, name: &str) -> Vec<f64> {
    cluster.nodes.iter().map(|node| node.metrics().sum(name, &[]).expect("a number")).collect()
}

#[test]
fn every_replica_that_counts_has_synced_what_asked_for_it() {
    let cluster = start("never");
    let mut connection = cluster.connect(1);
    let requested = || each(&cluster, "ladoga_commit_requested_syncs_total");
    let large = value(3, 700_000);
    let before = requested();
    for query in ["", "&fsync=never", "&fsync=everysec"] {
        for round in 0..5 {
            let target = format!("{}{query}", target("plain", ALL));
            assert_eq!(connection.request("PUT", &target, Some(b"value")).status, 201, "{round}");
        }
    }
    assert_eq!(requested(), before, "nobody asked for it");
    for (method, key, more, body, status) in [
        ("PUT", "small", "", Some(&b"value"[..]), 201),
        ("PUT", "large", "", Some(&large), 201),
        ("PUT", "brief", "&ttl=1h", Some(b"value"), 201),
        ("POST", "brief", "&ttl=2h", None, 200),
        ("POST", "number", "&increment=7", None, 200),
        ("DELETE", "small", "", None, 202),
    ] {
        let before = requested();
        let target = format!("{}{more}&fsync=always", target(key, ALL));
        let answer = connection.request(method, &target, body);
        assert_eq!(answer.status, status, "{method} {key}: {}", answer.text());
        let after = requested();
        assert!(after.iter().zip(&before).all(|(after, before)| after > before), "{method} {key}: {after:?}");
    }
    for wrong in ["", "=sometimes", "=always&fsync=always"] {
        let target = format!("{}&fsync{wrong}", target("plain", ALL));
        assert_refusal(&connection.request("PUT", &target, Some(b"other")), 400, wrong);
    }
    assert_eq!(cluster.get(0, "plain", ALL).as_deref(), Some(&b"value"[..]));
    assert_eq!(cluster.get(0, "number", ALL).as_deref(), Some(&b"7"[..]));
    assert!(cluster.get(2, "large", ALL).as_ref() == Some(&large));
}

/// A node that lost in a power cut what it acknowledged is rebuilt, so no client may ask it for less.
#[test]
fn a_node_of_a_cluster_syncs_what_it_syncs_by_itself_whatever_is_asked() {
    const PUTS: usize = 10;
    let cluster = start("always");
    let mut connection = cluster.connect(0);
    let syncs = || each(&cluster, "ladoga_wal_sync_duration_seconds_count");
    let before = syncs();
    for _ in 0..PUTS {
        let target = format!("{}&fsync=never", target("key", ALL));
        assert_eq!(connection.request("PUT", &target, Some(b"value")).status, 201);
    }
    let after = syncs();
    assert!(
        after.iter().zip(&before).all(|(after, before)| after - before >= PUTS as f64),
        "{before:?}, {after:?}"
    );
}
