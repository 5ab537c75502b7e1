use crate::cluster::{Cluster, launches, target};
use crate::support::{Connection, percent_encoded, value, wait_until};

const LARGE_BYTES: usize = 64 << 20;
/// Looks in a row at which a stream did not move, so that it is held up.
const STILL_LOOKS: usize = 50;
/// Streams that begin after the connection broke: one of them has the number of the one that was open before.
const OTHER_STREAMS: usize = 8;

/// Two nodes, with one event loop each: all that one asks of the other goes over one connection.
fn pair() -> Cluster {
    Cluster::launch(launches(2).into_iter().map(|launch| launch.flag("--threads", "1")).collect())
}

/// Names of values that node 1 alone has.
fn keys_of_node_1(cluster: &Cluster) -> Vec<String> {
    let keys = (0..20).map(|n| format!("key{n}"));
    keys.filter(|key| {
        cluster.put(0, key, "1/1", b"");
        cluster.holders(key) == [1]
    })
    .collect()
}

/// Begins to read a large value through node 0; `None` if it cannot be read yet.
fn begin(cluster: &Cluster, key: &str) -> Option<Connection> {
    let mut connection = cluster.connect(0);
    connection.send_request("GET", &target(key, "1/1"), None);
    let status = connection.response_head().status;
    assert!(matches!(status, 200 | 503 | 504), "{status}");
    (status == 200).then_some(connection)
}

#[test]
fn a_stream_ends_with_its_connection_and_goes_on_in_no_other() {
    let mut cluster = pair();
    let keys = keys_of_node_1(&cluster);
    let (first, second) = (value(1, LARGE_BYTES), value(2, LARGE_BYTES));
    cluster.put(0, &keys[0], "1/1", &first);
    cluster.put(0, &keys[1], "1/1", &second);
    let mut reader = begin(&cluster, &keys[0]).expect("a value");
    // The reader does not read, so that nothing is asked of node 1 while the connection breaks.
    let asked = |cluster: &Cluster| cluster.nodes[0].metrics().sum("ladoga_peer_requests_total", &[]);
    let (mut last, mut still) = (asked(&cluster), 0);
    wait_until("a stream that is held up", || {
        let now = asked(&cluster);
        // (Nodes tell each other how far they are, now and then.)
        still = if now <= last.map(|last| last + 1.0) { still + 1 } else { 0 };
        last = now;
        still == STILL_LOOKS
    });
    cluster.nodes[1].kill();
    cluster.nodes[1].start_again();
    let mut others = Vec::new();
    wait_until("other streams", || {
        others.extend(begin(&cluster, &keys[1]));
        others.len() == OTHER_STREAMS
    });
    let broken = first.chunks(1 << 16).find_map(|expected| match reader.try_read_exactly(expected.len()) {
        Ok(found) => {
            assert!(found == expected, "a part of another value");
            None
        }
        Err(error) => Some(error),
    });
    assert!(broken.is_some(), "a value of which a part was lost with the connection came whole");
}

#[test]
fn clients_that_break_off_their_large_values_leave_nothing_behind_on_other_nodes() {
    let cluster = Cluster::start(3);
    for n in 0..100 {
        let mut connection = cluster.connect(0);
        let key = percent_encoded(format!("broken{n}").as_bytes());
        connection.send(format!(
            "PUT /v0/entity?id={key}&replicas=3/3 HTTP/1.1\r\nHost: ladoga\r\nContent-Length: 1048576\r\n\r\n"
        ));
        // (If it is refused, the node may be quicker.)
        let _ = connection.try_send(value(n, 400_000));
    }
    wait_until("room for large values", || {
        cluster.request(0, "PUT", "whole", "3/3", Some(&value(7, 1 << 20))).status == 201
    });
    // Each of them has room for as many as before.
    for node in 0..3 {
        cluster.put(node, "whole", "3/3", &value(8, 1 << 20));
    }
}
