use crate::cluster::Cluster;
use crate::support::{assert_refusal, wait_until};

#[test]
fn any_node_coordinates_any_request() {
    for count in [2, 3, 5] {
        let cluster = Cluster::start(count);
        for (index, ack) in (0..count).flat_map(|node| (1..=count).map(move |ack| (node, ack))) {
            for from in ack..=count {
                let (key, replicas) = (format!("{index}-{ack}-{from}"), format!("{ack}/{from}"));
                cluster.put(index, &key, &replicas, key.as_bytes());
                // What a quorum wrote, a quorum reads, through whichever node.
                let majority = format!("{}/{from}", (from - ack + 1).max(1));
                for reader in 0..count {
                    assert_eq!(cluster.get(reader, &key, &majority), Some(key.clone().into_bytes()));
                }
                cluster.delete((index + 1) % count, &key, &replicas);
                for reader in 0..count {
                    assert_eq!(cluster.get(reader, &key, &majority), None, "{key} {majority}");
                }
            }
        }
    }
}

#[test]
fn without_replicas_a_majority_of_all_answers() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "k", "", b"value");
    wait_until("three copies", || cluster.holders("k").len() == 3);
    cluster.nodes[2].kill();
    cluster.put(0, "k", "", b"other");
    assert_eq!(cluster.get(1, "k", ""), Some(b"other".to_vec()));
    cluster.nodes[1].kill();
    assert_refusal(&cluster.request(0, "GET", "k", "", None), 504, "GET without a majority");
}

#[test]
fn a_write_leaves_no_more_copies_than_it_asked_for_and_smaller_sets_are_parts_of_larger_ones() {
    let cluster = Cluster::start(5);
    for n in 0..40 {
        let mut smaller = Vec::new();
        for from in 1..=5 {
            let key = format!("key{n}");
            cluster.put(n % 5, &key, &format!("{from}/{from}"), b"value");
            let holders = cluster.holders(&key);
            assert_eq!(holders.len(), from, "{key} from {from}");
            assert!(smaller.iter().all(|holder| holders.contains(holder)), "{key}: {smaller:?} {holders:?}");
            smaller = holders;
        }
    }
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let cluster = Cluster::start(3);
    for replicas in ["0/3", "4/3", "1/4", "2/1", "3/2", "a/b", "1", "/", "0/0"] {
        for (method, body) in [("PUT", Some(&b"v"[..])), ("GET", None), ("DELETE", None)] {
            let response = cluster.request(1, method, "k", replicas, body);
            assert_refusal(&response, 400, &format!("{method} {replicas}"));
        }
    }
}

#[test]
fn the_newest_write_wins_through_whichever_node_it_came() {
    let cluster = Cluster::start(3);
    for n in 0..300_usize {
        let value = n.to_string();
        cluster.put(n % 3, "counter", "2/3", value.as_bytes());
        assert_eq!(cluster.get((n + 1) % 3, "counter", "2/3"), Some(value.into_bytes()), "{n}");
    }
}

#[test]
fn a_head_says_how_long_the_value_is() {
    let cluster = Cluster::start(3);
    cluster.put(0, "k", "3/3", b"12345");
    for node in 0..3 {
        let mut connection = cluster.connect(node);
        connection.send_request("HEAD", &crate::cluster::target("k", "1/1"), None);
        let response = connection.response_to_head();
        assert_eq!((response.status, response.header("content-length")), (200, Some("5")));
        connection.send_request("HEAD", &crate::cluster::target("absent", "2/3"), None);
        assert_eq!(connection.response_to_head().status, 404);
    }
}
