use crate::cluster::Cluster;
use crate::support::{Connection, Node, Random, assert_refusal};

const UPGRADE: &str =
    "GET /v0/peer HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: ladoga-peer/3\r\n\r\n";

#[test]
fn only_nodes_of_a_cluster_speak_with_nodes() {
    let node = Node::start();
    assert_refusal(
        &node.connect().request("GET", "/v0/peer", None),
        400,
        "GET /v0/peer of a node on its own",
    );
    assert_refusal(&node.connect().request("GET", "/v0/cluster", None), 400, "GET /v0/cluster of one");
    let cluster = Cluster::start(2);
    let response = cluster.connect(0).request("GET", "/v0/peer", None);
    assert_refusal(&response, 426, "GET /v0/peer without an upgrade");
    // RFC 9110, 15.5.22 and 7.8.
    let fields = ["upgrade", "connection"].map(|name| response.header(name));
    assert_eq!(fields, [Some("ladoga-peer/3"), Some("upgrade")]);
}

/// An upgraded connection.
fn upgraded(cluster: &Cluster) -> Connection {
    let mut connection = cluster.connect(0);
    connection.send(UPGRADE);
    let head = connection.response_head();
    assert_eq!(head.status, 101);
    connection
}

#[test]
fn a_connection_of_a_peer_goes_on_at_the_event_loop_of_its_number() {
    let cluster = Cluster::start(2);
    cluster.put(0, "k", "2/2", b"value");
    let moved = || cluster.nodes[0].metrics().sum("ladoga_connections_moved_total", &[]).expect("a metric");
    let (before, get) = (moved(), "GET /v0/entity?id=k&replicas=2/2 HTTP/1.1\r\nhost: x\r\n\r\n");
    // Nobody has a loop with such a number, and a number counts around.
    let numbers =
        ["0", "0", "0", "0", "1", "7", "18446744073709551615", "18446744073709551616", "-1", "", "x"];
    let peers = numbers.map(|number| {
        let mut connection = cluster.connect(0);
        let upgrade = UPGRADE.replace("host", &format!("ladoga-loop: {number}\r\nhost"));
        connection.send([get, &upgrade].concat());
        assert_eq!(connection.response().body, b"value", "what was asked before is answered first");
        assert_eq!(connection.response_head().status, 101, "{number}");
        connection
    });
    // Each was accepted where the fewest are.
    assert!(moved() > before);
    for mut connection in peers {
        let _ = connection.try_send([0xff; 64]);
        connection.finish_sending();
        connection.rest();
    }
    assert_eq!(cluster.get(0, "k", "2/2"), Some(b"value".to_vec()));
}

#[test]
fn bytes_that_are_no_protocol_end_their_own_connection_only() {
    let cluster = Cluster::start(2);
    let mut random = Random::new(1);
    let mut inputs: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
        // A length that would take all memory.
        [&u32::MAX.to_le_bytes()[..], &[0; 60]].concat(),
        // A whole frame of a request without a greeting, whose checksum is wrong.
        [&9_u32.to_le_bytes()[..], &[0; 4], &[0; 4], &[8], &[0; 4]].concat(),
    ];
    inputs.extend((0..50).map(|_| (0..200).map(|_| random.next() as u8).collect()));
    for input in inputs {
        let mut connection = upgraded(&cluster);
        let _ = connection.try_send(&input);
        connection.finish_sending();
        // Whatever is sent, the connection ends.
        connection.rest();
    }
    cluster.put(0, "k", "2/2", b"value");
    assert_eq!(cluster.get(1, "k", "2/2"), Some(b"value".to_vec()));
    let mut nodes = cluster.nodes;
    nodes.iter_mut().for_each(Node::stop);
}
