use crate::cluster::Cluster;
use crate::support::{Ladoga, Launch, entity, value};

fn copy(from: &str, to: &str) -> Ladoga {
    Ladoga::new(["copy", "--from", from, "--to", to, "--verify"])
}

#[test]
fn a_store_moves_into_a_cluster_and_back() {
    const COUNT: usize = 2_000;
    let (node, cluster, back) = (Launch::patient().start(), Cluster::start(3), Launch::patient().start());
    let mut connection = node.connect();
    let line = |number| format!("{{\"op\":\"put\",\"key\":\"key{number}\",\"value\":\"{number}\"}}\n");
    let body: String = (0..COUNT).map(line).collect();
    assert_eq!(connection.request("POST", "/v0/batch", Some(body.as_bytes())).status, 200);
    let large = value(1, 5_000_000);
    connection.put([0xff, b'\n'], &large);
    connection.put("empty", b"");
    let put = connection.request("PUT", &format!("{}&ttl=1h", entity("fog")), Some(b"mist"));
    assert_eq!(put.status, 201);
    let said = format!("{0} records copied\n{0} records are the same\n", COUNT + 3);
    let copied = copy(&node.url(), &cluster.nodes[1].url()).run().expect_success();
    assert_eq!(copied.stderr, said);
    for replicas in ["1/3", "3/3"] {
        let read = cluster.request(2, "GET", "key7", replicas, None);
        assert_eq!((read.status, read.text()), (200, "7"), "{replicas}");
    }
    let within = copy(&cluster.nodes[0].url(), &cluster.nodes[2].url()).run();
    within
        .expect_failure(2, &[&cluster.nodes[0].url(), &cluster.nodes[2].url(), "nodes of the same cluster"]);
    let copied = copy(&cluster.nodes[2].url(), &back.url()).run().expect_success();
    assert_eq!(copied.stderr, said);
    assert!(back.connect().value([0xff, b'\n']) == Some(large));
}
