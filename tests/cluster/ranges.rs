use std::net::TcpListener;

use crate::cluster::{Cluster, launches};
use crate::support::{Launch, Response, assert_refusal, value, wait_until};

fn range(cluster: &Cluster, node: usize, query: &str) -> Response {
    cluster.connect(node).request("GET", &format!("/v0/entities?{query}&scope=cluster"), None)
}

#[test]
fn a_range_over_the_cluster_has_each_key_once_in_its_newest_version() {
    let cluster = Cluster::start(3);
    let mut expected = Vec::new();
    for n in 0..600 {
        let key = format!("key{n:04}");
        // Copies on one node, on two, and on all: no node has everything.
        let replicas = ["1/1", "2/2", "3/3"][n % 3];
        cluster.put(n % 3, &key, replicas, b"old");
        match n % 5 {
            0 => cluster.delete((n + 1) % 3, &key, replicas),
            1 => {
                cluster.put((n + 2) % 3, &key, replicas, key.as_bytes());
                expected.push((key.clone().into_bytes(), key.into_bytes()));
            }
            _ => expected.push((key.into_bytes(), b"old".to_vec())),
        }
    }
    for node in 0..3 {
        let response = range(&cluster, node, "start=key");
        assert_eq!(response.status, 200, "{}", response.text());
        assert!(response.records() == expected, "through {node}");
        let part = range(&cluster, node, "start=key0100&end=key0200").records();
        let inside = expected.iter().filter(|(key, _)| (&b"key0100"[..]..b"key0200").contains(&&key[..]));
        assert!(part.iter().eq(inside), "through {node}");
        assert_eq!(range(&cluster, node, "start=z").records(), []);
    }
}

#[test]
fn a_range_over_the_cluster_has_large_values_of_whichever_node() {
    let cluster = Cluster::start(3);
    let mut expected = Vec::new();
    for n in 0..6_u64 {
        let (key, value) = (format!("large{n}"), value(n, 700_000));
        cluster.put(0, &key, "1/1", &value);
        expected.push((key.into_bytes(), value));
    }
    for node in 0..3 {
        assert!(range(&cluster, node, "start=a").records() == expected, "through {node}");
    }
}

#[test]
fn a_range_over_the_cluster_needs_as_many_nodes_as_a_read_of_each_key() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "deleted", "3/3", b"old");
    cluster.put(0, "k", "3/3", b"old");
    cluster.nodes[2].kill();
    cluster.put(0, "k", "2/3", b"new");
    cluster.delete(1, "deleted", "2/3");
    cluster.put(1, "l", "", b"value");
    let expected = [(b"k".to_vec(), b"new".to_vec()), (b"l".to_vec(), b"value".to_vec())];
    // Two of three have every key that lives on three.
    for query in ["start=a", "start=a&replicas=1/3", "start=a&replicas=1/2"] {
        let response = range(&cluster, 1, query);
        assert_eq!(response.status, 200, "{query}: {}", response.text());
        assert_eq!(response.records(), expected, "{query}");
    }
    // Keys that the missing node has for itself would be missing without a sign.
    for query in ["start=a&replicas=1/1", "start=a&replicas=3/3", "start=a&from=2"] {
        let response = range(&cluster, 0, query);
        assert_refusal(&response, 504, query);
        assert!(response.text().contains(&cluster.nodes[2].url()), "{}", response.text());
    }
    for (query, what) in [("start=a&replicas=1/4", "more than there are"), ("start=a&ack=0", "nobody")] {
        assert_refusal(&range(&cluster, 0, query), 400, what);
    }
    // A node that missed the deletion is there, and one that has it is not.
    cluster.nodes[2].start_again();
    cluster.nodes[0].kill();
    for node in [1, 2] {
        let response = range(&cluster, node, "start=a");
        assert_eq!(response.status, 200, "through {node}: {}", response.text());
        assert_eq!(response.records(), expected, "through {node}");
    }
    cluster.nodes[1].kill();
    assert_refusal(&range(&cluster, 2, "start=a"), 504, "a range of one node of three");
    // The node's own data are there, as always.
    let own = cluster.connect(2).request("GET", "/v0/entities?start=k&scope=node", None);
    assert_eq!(own.status, 200);
    let wrong = cluster.connect(2).request("GET", "/v0/entities?start=a&scope=all", None);
    assert_refusal(&wrong, 400, "a scope that is none");
}

#[test]
fn a_range_does_not_wait_for_a_node_that_could_not_be_reached_and_is_not_needed() {
    // So that who waits for it is found out.
    let patient = |launch: Launch| launch.env("LADOGA_PEER_CONNECT_TIMEOUT_MS", "600000");
    let mut cluster = Cluster::launch(launches(3).into_iter().map(patient).collect());
    cluster.put(0, "k", "3/3", b"value");
    cluster.nodes[2].kill();
    let unreachable = |cluster: &Cluster| cluster.report(0).to_string().contains("unreachable");
    wait_until("a node that is found to be gone", || unreachable(&cluster));
    // In its place is somebody who says nothing.
    let _silent = TcpListener::bind(cluster.nodes[2].address()).expect("the port of a node that is gone");
    let response = range(&cluster, 0, "start=k&end=l");
    assert_eq!(response.records(), [(b"k".to_vec(), b"value".to_vec())]);
    assert!(unreachable(&cluster));
}

/// A peer's last report counted, and for half a second that was from before it knew whether it had lost anything.
#[test]
fn new_nodes_count_for_a_range_as_soon_as_they_are_whole() {
    for _ in 0..5 {
        let cluster = Cluster::start(3);
        for node in 0..3 {
            let response = range(&cluster, node, "start=a&replicas=3/3");
            assert_eq!(response.status, 200, "through {node}: {}", response.text());
        }
    }
}

#[test]
fn a_node_that_lost_its_disk_does_not_count_for_a_range() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "k", "3/3", b"value");
    cluster.nodes[2].kill();
    std::fs::remove_dir_all(cluster.nodes[2].data()).expect("a data directory");
    cluster.nodes[1].kill();
    cluster.nodes[2].start_again();
    let response = range(&cluster, 0, "start=a");
    assert_refusal(&response, 504, "a range of a node, and one that lost its disk");
    cluster.nodes[1].start_again();
    wait_until("a range of two nodes that have all", || range(&cluster, 0, "start=a").status == 200);
    assert_eq!(range(&cluster, 0, "start=a").records(), [(b"k".to_vec(), b"value".to_vec())]);
}

#[test]
fn a_range_goes_on_without_a_node_that_dies_meanwhile() {
    let mut cluster = Cluster::start(3);
    let mut expected = Vec::new();
    for n in 0..60_u64 {
        let (key, value) = (format!("key{n:03}"), value(n, 60_000));
        cluster.put(0, &key, "3/3", &value);
        expected.push((key.into_bytes(), value));
    }
    let mut connection = cluster.connect(0);
    connection.send_request("GET", "/v0/entities?start=key&scope=cluster", None);
    // More than the sockets between them hold is still to come.
    assert_eq!(connection.response_head().status, 200);
    let mut records: Vec<_> = connection.next_record().expect("a record").into_iter().collect();
    cluster.nodes[2].kill();
    while let Some(record) = connection.next_record().expect("a range that goes on") {
        records.push(record);
    }
    assert!(records == expected, "{} of {}", records.len(), expected.len());
}

/// Keys with copies on one node, on two and on all, some of them deleted or replaced; answers what there is.
fn fill(cluster: &Cluster) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut expected = Vec::new();
    for n in 0..150 {
        let (key, replicas) = (format!("key{n:04}"), ["1/1", "2/2", "3/3"][n % 3]);
        cluster.put(n % 3, &key, replicas, b"old");
        match n % 5 {
            0 => cluster.delete((n + 1) % 3, &key, replicas),
            1 => {
                cluster.put((n + 2) % 3, &key, replicas, key.as_bytes());
                expected.push((key.clone().into_bytes(), key.into_bytes()));
            }
            _ => expected.push((key.into_bytes(), b"old".to_vec())),
        }
    }
    let large = value(7, 700_000);
    cluster.put(1, "key9999", "1/1", &large);
    expected.push((b"key9999".to_vec(), large));
    expected
}

#[test]
fn a_range_over_the_cluster_goes_backward_and_by_pages() {
    let cluster = Cluster::start(3);
    let expected = fill(&cluster);
    for node in 0..3 {
        let mut backward = range(&cluster, node, "prefix=key&reverse=true").records();
        backward.reverse();
        assert!(backward == expected, "through {node}");
        for reverse in [false, true] {
            let (mut found, mut after) = (Vec::new(), String::new());
            loop {
                let query = format!("prefix=key&limit=40&reverse={reverse}{after}");
                let page = range(&cluster, node, &query).records();
                assert!(page.len() <= 40, "{query}");
                let Some((last, _)) = page.last() else { break };
                after = format!("&after={}", String::from_utf8_lossy(last));
                found.extend(page);
            }
            if reverse {
                found.reverse();
            }
            assert!(found == expected, "through {node}, reverse: {reverse}");
        }
    }
}

#[test]
fn a_range_over_the_cluster_is_counted_and_told_in_lines() {
    let cluster = Cluster::start(3);
    let expected = fill(&cluster);
    for node in 0..3 {
        let count = range(&cluster, node, "prefix=key&count=true");
        assert_eq!(count.text(), format!("{}\n", expected.len()), "through {node}");
        let keys = range(&cluster, node, "prefix=key&values=false").records();
        let only_keys = expected.iter().map(|(key, _)| (key.clone(), Vec::new()));
        assert!(keys.into_iter().eq(only_keys), "through {node}");
        let mut connection = cluster.connect(node);
        for (target, has_values) in [("", true), ("&values=false", false)] {
            let target = format!("/v0/entities?prefix=key&scope=cluster{target}");
            connection
                .send(format!("GET {target} HTTP/1.1\r\nHost: h\r\nAccept: application/x-ndjson\r\n\r\n"));
            let lines = connection.response();
            let lines: Vec<serde_json::Value> =
                lines.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            assert_eq!(lines.len(), expected.len(), "through {node}");
            for (line, (key, value)) in lines.iter().zip(&expected) {
                assert_eq!(line["key"].as_str().map(str::as_bytes), Some(&key[..]));
                let is_large = value.len() > 256 << 10;
                let shown = line["value"].as_str().map(str::as_bytes);
                assert_eq!(shown, (has_values && !is_large).then_some(&value[..]));
                assert_eq!(line["value_base64"].is_string(), has_values && is_large);
            }
            // The version is the one that a read has.
            let read = cluster.request(node, "GET", "key0002", "3/3", None);
            let line = lines.iter().find(|line| line["key"] == "key0002").expect("a line");
            assert_eq!(line["etag"].as_str(), read.header("etag"));
        }
    }
}

#[test]
fn what_expired_is_in_no_range_over_the_cluster() {
    let cluster = Cluster::start(3);
    for (key, ttl) in [("a", "1h"), ("b", "1ms"), ("c", "1h")] {
        let target = format!("/v0/entity?id={key}&ttl={ttl}");
        assert_eq!(cluster.connect(0).request("PUT", &target, Some(b"value")).status, 201);
    }
    wait_until("a value that expires", || cluster.get(1, "b", "").is_none());
    for (query, expected) in
        [("start=a", "ac"), ("start=a&reverse=true", "ca"), ("start=a&values=false", "ac")]
    {
        wait_until("a range without it", || {
            let records = range(&cluster, 2, query).records();
            let keys: Vec<u8> = records.into_iter().flat_map(|(key, _)| key).collect();
            keys == expected.as_bytes()
        });
    }
    assert_eq!(range(&cluster, 2, "start=a&count=true").text(), "2\n");
}
