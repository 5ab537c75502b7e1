use crate::cluster::Cluster;
use crate::support::{Response, assert_refusal, value};

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
fn a_range_over_the_cluster_says_so_where_it_would_be_incomplete() {
    let mut cluster = Cluster::start(3);
    cluster.put(0, "k", "3/3", b"value");
    cluster.nodes[2].kill();
    let response = range(&cluster, 0, "start=a");
    assert_refusal(&response, 504, "a range over a cluster of which one node is down");
    assert!(response.text().contains(&cluster.nodes[2].url()), "{}", response.text());
    // The node's own data are there, as always.
    let own = cluster.connect(0).request("GET", "/v0/entities?start=a&scope=node", None);
    assert_eq!(own.records(), [(b"k".to_vec(), b"value".to_vec())]);
    let wrong = cluster.connect(0).request("GET", "/v0/entities?start=a&scope=all", None);
    assert_refusal(&wrong, 400, "a scope that is none");
}
