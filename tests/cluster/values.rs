use crate::cluster::Cluster;
use crate::support::{assert_refusal, value, wait_until};

#[test]
fn values_of_all_sizes_go_to_all_replicas_and_come_back_through_every_node() {
    let cluster = Cluster::start(3);
    for bytes in [0, 1, 65_535, 262_143, 262_144, 262_145, 1 << 20, (5 << 20) + 1] {
        let key = format!("value{bytes}");
        let value = value(bytes as u64, bytes);
        for from in 1..=3 {
            let replicas = format!("{from}/{from}");
            cluster.put(from % 3, &key, &replicas, &value);
            for node in 0..3 {
                let found = cluster.get(node, &key, &replicas);
                assert!(found.as_ref() == Some(&value), "{key} {replicas} through {node}");
            }
        }
    }
}

#[test]
fn the_largest_value_takes_little_memory_on_its_way_through_a_cluster() {
    let cluster = Cluster::start(3);
    let value = value(7, 64 << 20);
    let before: Vec<_> = cluster.nodes.iter().map(crate::support::Node::resident_bytes).collect();
    cluster.put(0, "large", "3/3", &value);
    for node in 0..3 {
        assert!(cluster.get(node, "large", "2/3").as_ref() == Some(&value), "through {node}");
    }
    for (node, before) in cluster.nodes.iter().zip(before) {
        let grown = node.resident_bytes().saturating_sub(before);
        assert!(grown < 32 << 20, "{grown} bytes more than before the value of 64 MiB");
    }
}

#[test]
fn a_replica_that_missed_a_large_value_gets_it_by_a_read() {
    let mut cluster = Cluster::start(3);
    let value = value(3, 1 << 20);
    cluster.put(0, "k", "3/3", b"small");
    cluster.nodes[2].kill();
    cluster.put(0, "k", "2/3", &value);
    cluster.nodes[2].start_again();
    assert!(cluster.get(1, "k", "3/3").as_ref() == Some(&value));
    wait_until("the repair of the third replica", || {
        let end = crate::support::range("k", Some(b"k\0"));
        let records = cluster.connect(2).request("GET", &end, None).records();
        records.len() == 1 && records[0].1 == value
    });
}

#[test]
fn a_large_value_for_too_few_replicas_is_refused_in_the_end() {
    let mut cluster = Cluster::start(3);
    cluster.nodes[1].kill();
    cluster.nodes[2].kill();
    let response = cluster.request(0, "PUT", "k", "2/3", Some(&value(1, 1 << 20)));
    assert_refusal(&response, 504, "a large PUT 2/3 on one node of three");
}
