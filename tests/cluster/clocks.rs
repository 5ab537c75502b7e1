use crate::cluster::{Cluster, launches_at};
use crate::support::{WallClocks, assert_refusal, wait_until};

const DAY: i64 = 86_400;

/// Nodes with a wall clock each; `None` if there is nothing to set clocks with.
fn cluster_of(nodes: usize) -> Option<(WallClocks, Cluster)> {
    let clocks = WallClocks::new()?;
    let launches = launches_at(nodes, |launch, node| clocks.place(launch, node));
    Some((clocks, Cluster::launch(launches)))
}

fn key(n: usize) -> String {
    format!("key{n}")
}

/// Stores a value under so many keys through a node. How many were acknowledged; none may be refused for anything but
/// a quorum.
fn put_all(cluster: &Cluster, node: usize, keys: usize, value: &[u8]) -> usize {
    let put = |n: &usize| {
        let response = cluster.request(node, "PUT", &key(*n), "2/3", Some(value));
        assert!(matches!(response.status, 201 | 503 | 504), "{response:?}");
        response.status == 201
    };
    (0..keys).filter(put).count()
}

/// Reads so many keys through every node, from every node: what any of them has shows. All of it has to be `value`.
#[track_caller]
fn assert_all_read(cluster: &Cluster, keys: usize, value: &[u8]) {
    for node in 0..cluster.nodes.len() {
        for n in 0..keys {
            let found = cluster.get(node, &key(n), &format!("{0}/{0}", cluster.nodes.len()));
            let found = found.map(|found| String::from_utf8_lossy(&found).into_owned());
            assert_eq!(found.as_deref(), str::from_utf8(value).ok(), "{} through {node}", key(n));
        }
    }
}

/// How often the log of a node says so.
fn said(cluster: &Cluster, node: usize, line: &str) -> usize {
    cluster.nodes[node].log().matches(line).count()
}

fn ahead_seconds(cluster: &Cluster, node: usize) -> f64 {
    let metrics = cluster.nodes[node].metrics();
    metrics.sum("ladoga_clock_ahead_of_majority_seconds", &[]).expect("a metric")
}

/// (What the others refused as too far ahead was kept by the one, spread once their clocks had come near, and won.)
#[test]
fn a_clock_that_jumps_ahead_undoes_nothing_that_is_acknowledged_later() {
    let Some((clocks, cluster)) = cluster_of(3) else { return };
    clocks.set_ahead(0, 66);
    assert_eq!(put_all(&cluster, 0, 40, b"before"), 40, "the others' clocks are known: it goes by them");
    for n in 0..15 {
        cluster.put(1, &key(n), "2/3", b"after");
        assert_eq!(cluster.get(2, &key(n), "2/3"), Some(b"after".to_vec()));
    }
    // The others come near it.
    for seconds in [10, 30, 66, 0] {
        clocks.set_ahead(1, seconds);
        clocks.set_ahead(2, seconds);
        assert_all_read(&cluster, 15, b"after");
    }
    for n in 15..40 {
        assert_eq!(cluster.get(2, &key(n), "3/3"), Some(b"before".to_vec()));
    }
}

/// (It had durably reserved timestamps of the day after, and no node took its writes until that day.)
#[test]
fn a_clock_that_was_a_day_ahead_for_a_while_is_forgotten_once_it_is_right() {
    let Some((clocks, mut cluster)) = cluster_of(3) else { return };
    for round in 0..3 {
        let warned = said(&cluster, 0, "ahead of the clocks of a majority");
        clocks.set_ahead(0, DAY);
        wait_until("a warning", || said(&cluster, 0, "ahead of the clocks of a majority") > warned);
        assert!((ahead_seconds(&cluster, 0) - DAY as f64).abs() < 60.0);
        wait_until("an offset that is told", || {
            let nodes = cluster.report(1)["nodes"].as_array().expect("nodes").clone();
            let mut offsets_ms = nodes.iter().filter_map(|node| node["clock_offset_ms"].as_i64());
            offsets_ms.any(|ms| (ms - DAY * 1000).abs() < 60_000)
        });
        assert_eq!(put_all(&cluster, 0, 10, b"before"), 10);
        if round == 1 {
            cluster.nodes[0].crash();
            cluster.wait_until_all_answer();
            assert_eq!(put_all(&cluster, 0, 10, b"before"), 10);
            wait_until("a warning", || said(&cluster, 0, "ahead of the clocks of a majority") > warned + 1);
        }
        assert_eq!(put_all(&cluster, 1, 10, b"after"), 10);
        assert_all_read(&cluster, 10, b"after");
        let ended = said(&cluster, 0, "of the nodes again");
        clocks.set_ahead(0, 0);
        if round == 2 {
            cluster.nodes[0].crash();
            cluster.wait_until_all_answer();
        }
        // At once, through each.
        for node in 0..3 {
            cluster.put(node, "right", "3/3", &[node as u8]);
            assert_eq!(cluster.get((node + 1) % 3, "right", "3/3"), Some(vec![node as u8]));
        }
        assert_all_read(&cluster, 10, b"after");
        if round < 2 {
            wait_until("an end of the warning", || said(&cluster, 0, "of the nodes again") > ended);
        }
        assert_eq!(cluster.report(0)["clock"]["agreed"], true);
    }
    wait_until("a clock that counts as it is", || ahead_seconds(&cluster, 0) == 0.0);
}

/// (Alone, it knows no other clock. What it wrote, acknowledged or not, won over what the others acknowledged later, once their
/// clocks had gone on for a day and they took it.)
#[test]
fn a_node_that_starts_a_day_ahead_and_alone_writes_nothing_that_wins_later() {
    let Some((clocks, mut cluster)) = cluster_of(3) else { return };
    cluster.put(0, "key0", "3/3", b"first");
    cluster.nodes.iter_mut().for_each(crate::support::Node::stop);
    clocks.set_ahead(0, DAY);
    cluster.nodes[0].start_again();
    assert_eq!(put_all(&cluster, 0, 10, b"alone"), 0, "there are no others");
    assert!(
        cluster
            .request(0, "PUT", "key0", "2/3", Some(b"alone"))
            .text()
            .ends_with("nothing was read or written\n")
    );
    cluster.put(0, "key10", "1/3", b"alone");
    assert_eq!(cluster.get(0, "key10", "1/3"), Some(b"alone".to_vec()));
    assert_eq!(cluster.report(0)["clock"]["agreed"], false);
    cluster.nodes[0].crash();
    assert_eq!(put_all(&cluster, 0, 10, b"alone"), 0, "there are no others");
    // Half a minute later, which is longer than a restart puts any node ahead, the others come without it; then it comes,
    // first with the wrong clock, and then with the right one.
    cluster.nodes[0].kill();
    for node in [1, 2] {
        clocks.set_ahead(node, 30);
        cluster.nodes[node].start_again();
    }
    // Timestamps that were given out before are less than the first write of these nodes, which have not heard of each other
    // yet.
    assert_eq!(put_all(&cluster, 1, 11, b"after"), 11);
    for seconds in [DAY, 30] {
        clocks.set_ahead(0, seconds);
        cluster.nodes[0].start_again();
        cluster.wait_until_all_answer();
        assert_all_read(&cluster, 11, b"after");
        for node in 0..3 {
            cluster.put(node, "right", "3/3", &[node as u8]);
            assert_eq!(cluster.get((node + 1) % 3, "right", "3/3"), Some(vec![node as u8]));
        }
        cluster.nodes[0].kill();
    }
}

/// (Each refused what the others wrote for as long as the clocks had been set back by.)
#[test]
fn clocks_that_are_all_set_back_refuse_nobody() {
    let Some((clocks, mut cluster)) = cluster_of(3) else { return };
    cluster.put(0, "key0", "3/3", b"before");
    let write_through_each = |cluster: &Cluster| {
        for node in 0..3 {
            cluster.put(node, "key0", "3/3", &[node as u8]);
            assert_eq!(cluster.get((node + 1) % 3, "key0", "3/3"), Some(vec![node as u8]));
        }
    };
    for node in 0..3 {
        clocks.set_ahead(node, -180);
        write_through_each(&cluster);
    }
    // And all that is known of the time before is on the disks.
    for node in 0..3 {
        cluster.nodes[node].crash();
        cluster.wait_until_all_answer();
        write_through_each(&cluster);
    }
}

#[test]
fn a_node_whose_clock_falls_back_by_a_day_goes_by_the_others() {
    let Some((clocks, mut cluster)) = cluster_of(3) else { return };
    for round in 0..2 {
        let warned = said(&cluster, 2, "behind the clocks of a majority");
        clocks.set_ahead(2, -DAY);
        if round == 1 {
            cluster.nodes[2].crash();
            cluster.wait_until_all_answer();
        }
        wait_until("a warning", || said(&cluster, 2, "behind the clocks of a majority") > warned);
        for n in 0..10 {
            cluster.put(n % 3, "key0", "3/3", &[n as u8]);
            assert_eq!(cluster.get((n + 1) % 3, "key0", "3/3"), Some(vec![n as u8]));
        }
        clocks.set_ahead(2, 0);
        cluster.put(2, "key0", "3/3", b"right");
        assert_eq!(cluster.get(0, "key0", "3/3"), Some(b"right".to_vec()));
    }
}

/// (It took the clock of the other one for right, whichever was. With one that is behind, values that had expired came back.)
#[test]
fn a_node_that_starts_and_hears_one_clock_a_day_ahead_decides_nothing_by_the_day_between() {
    let Some((clocks, mut cluster)) = cluster_of(3) else { return };
    let put = |cluster: &Cluster, key: &str, ttl: &str| {
        cluster.request(0, "PUT", key, &format!("2/3&ttl={ttl}"), Some(b"value"))
    };
    for (key, ttl) in [("hour", "1h"), ("month", "30d")] {
        assert_eq!(put(&cluster, key, ttl).status, 201);
    }
    cluster.put(0, "ever", "2/3", b"value");
    cluster.nodes[2].kill();
    clocks.set_ahead(1, DAY);
    cluster.nodes[0].crash();
    for key in ["month", "ever"] {
        assert_eq!(cluster.get(0, key, "2/3"), Some(b"value".to_vec()), "{key}: it is there by both clocks");
    }
    let refused = [cluster.request(0, "GET", "hour", "2/3", None), put(&cluster, "minute", "1m")];
    for refused in refused {
        assert_refusal(&refused, 504, "which of the two is right?");
        assert!(refused.text().contains(" ms apart") && refused.text().contains("nothing was written"));
    }
    assert_eq!(cluster.get(0, "minute", "2/3"), None);
    cluster.nodes[2].start_again();
    wait_until("clocks of a majority that agree", || put(&cluster, "minute", "1m").status == 201);
    assert_eq!(cluster.get(0, "hour", "2/3"), Some(b"value".to_vec()));
    // Which it knows from then on.
    cluster.nodes[2].kill();
    assert_eq!(cluster.get(0, "hour", "2/3"), Some(b"value".to_vec()));
    assert_eq!(put(&cluster, "hour", "2h").status, 201);
}

/// The versions of a directory never move back: if a node wrote on its own with a clock a day ahead, and becomes one of
/// several, the others cannot take its versions before that day. It reports that, and keeps nothing that they refuse.
#[test]
fn a_directory_that_is_a_day_ahead_takes_no_writes_for_others_and_says_why() {
    let Some(clocks) = WallClocks::new() else { return };
    let launches = launches_at(3, |launch, node| clocks.place(launch, node));
    let mut cluster = Cluster::launch(launches);
    let urls: Vec<String> = cluster.nodes.iter().map(crate::support::Node::url).collect();
    cluster.nodes[0].stop();
    std::fs::remove_dir_all(cluster.nodes[0].data()).expect("a data directory");
    clocks.set_ahead(0, DAY);
    cluster.nodes[0].relaunch(|launch| launch.flag("--cluster", &urls[0]));
    cluster.nodes[0].start_again();
    cluster.put(0, "key0", "1/1", b"alone");
    cluster.nodes[0].stop();
    clocks.set_ahead(0, 0);
    cluster.nodes[0].relaunch(|launch| launch.flag("--cluster", &urls.join(",")));
    cluster.nodes[0].start_again();
    wait_until("a node that has heard of the others", || {
        let report = cluster.report(0);
        report["clock"]["agreed"] == true && report["replica_state"]["may_coordinate"] == true
    });
    let refused = cluster.request(0, "PUT", "key1", "2/3", Some(b"ahead"));
    assert_refusal(&refused, 503, "a write that a majority would refuse");
    assert!(
        refused.text().contains("too far ahead") && refused.text().contains("to another node"),
        "{refused:?}"
    );
    assert!(cluster.holders("key1").is_empty(), "nobody keeps what was refused");
    // The disk of the first one was lost: what is under way through another node when that learns it has to be done again.
    for (node, method, value, status) in [(1, "PUT", Some(&b"taken"[..]), 201), (2, "GET", None, 200)] {
        wait_until("a node that knows of the lost disk", || {
            let answer = cluster.request(node, method, "key1", "2/3", value);
            assert!([status, 504].contains(&answer.status), "{answer:?}");
            answer.status == status
        });
    }
    assert_eq!(cluster.get(2, "key1", "2/3"), Some(b"taken".to_vec()));
}
