use std::sync::Arc;
use std::time::Duration;

use crate::cluster::Cluster;
use crate::support::{
    Exchange, Expected, SMUGGLED, bytes_of, cuts_at_boundaries, cuts_from, exchange_cut, value_of_requests,
};

const UPGRADE: &str = "GET /v0/peer HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: ladoga-peer/3\r\n";

#[test]
fn requests_behind_ranges_over_a_cluster_may_be_cut_anywhere() {
    let cluster = Cluster::start(3);
    cluster.put(0, "victim", "3/3", b"alive");
    let mut records = Vec::new();
    for number in 0..12 {
        let (key, length) = (format!("r{number:02}"), [40, 5_000, 70_000, 300_000][number % 4]);
        let value = value_of_requests(number, length);
        cluster.put(number % 3, &key, "", &value);
        records.push((key.into_bytes(), value));
    }
    let value = Arc::new(value_of_requests(20, 100_000));
    cluster.put(1, "inline", "", &value);
    let small: Vec<Arc<Vec<u8>>> = (0..20).map(|n| Arc::new(format!("value {n}").into_bytes())).collect();
    for (number, value) in small.iter().enumerate() {
        cluster.put(number % 3, &format!("s{number}"), "", value);
    }
    let padding = format!("X-Pad: {}\r\n", "p".repeat(1_500));
    let padded = |number: usize| {
        let expected = Expected::Value(Arc::clone(&small[number]));
        Exchange::new(&format!("GET /v0/entity?id=s{number}"), &padding, b"", expected)
    };
    let range =
        Exchange::plain("GET /v0/entities?start=r&end=s&scope=cluster", Expected::Records(Arc::new(records)));
    let inline = Exchange::get("inline", &value);
    for two in [[range.clone(), range.clone()], [inline.clone(), range.clone()], [inline.clone(), inline]] {
        let mut pipeline = two.to_vec();
        pipeline.extend((0..10).map(padded));
        pipeline.extend(two);
        pipeline.extend((10..20).map(padded));
        let mut cuts = cuts_at_boundaries();
        cuts.extend(cuts_from(0).into_iter().step_by(5));
        // Few at a time: each range is a stream on every node, and nodes with little memory have few.
        for cuts in cuts.chunks(4) {
            exchange_cut(cluster.nodes[2].address(), &pipeline, cuts, "over a cluster");
        }
    }
    for node in 0..3 {
        assert_eq!(cluster.get(node, "victim", "3/3").as_deref(), Some(&b"alive"[..]));
    }
}

#[test]
fn an_upgrade_may_come_behind_streamed_values_and_with_what_follows_it() {
    let cluster = Cluster::start(2);
    let value = Arc::new(value_of_requests(0, 100_000));
    cluster.put(0, "inline", "2/2", &value);
    cluster.put(0, "victim", "2/2", b"alive");
    let inline = Exchange::get("inline", &value);
    let padding = format!("X-Pad: {}\r\n", "p".repeat(9_000));
    let padded = Exchange::new("GET /v0/entity?id=inline", &padding, b"", inline.expected.clone());
    let bytes = bytes_of(&[inline.clone(), inline, padded.clone(), padded]);
    // No greeting of a peer: it ends the connection, and is no request.
    let behind = format!("{UPGRADE}\r\n{}", SMUGGLED.repeat(100));
    for cut in [0, 10, bytes.len() - 1, bytes.len() + 20, bytes.len() + UPGRADE.len() + 10] {
        let (mut sender, mut reader) = cluster.connect(0).split();
        let all = [&bytes, behind.as_bytes()].concat();
        sender.send(&all[..cut]);
        std::thread::scope(|scope| {
            scope.spawn(move || sender.try_send(&all[cut..]));
            for _ in 0..4 {
                assert!(reader.response().body == *value, "cut at {cut}");
            }
            assert_eq!(reader.response_head().status, 101, "cut at {cut}");
            let answer = reader.rest();
            assert!(!answer.starts_with(b"HTTP"), "{}", answer.escape_ascii());
        });
    }
    assert_eq!(cluster.get(1, "victim", "2/2").as_deref(), Some(&b"alive"[..]));
}

#[test]
fn who_sends_more_behind_a_greeting_that_is_refused_gets_every_answer_before_it() {
    let cluster = Cluster::start(2);
    let value = value_of_requests(0, 100_000);
    cluster.put(0, "inline", "2/2", &value);
    let mut connection = cluster.connect(0);
    connection.limit_receiving_to(8_000);
    connection.send("GET /v0/entity?id=inline HTTP/1.1\r\nhost: x\r\n\r\n".repeat(4));
    connection.send(format!("{UPGRADE}\r\n{SMUGGLED}"));
    // The node has refused it by then, and most of the answers have not been read.
    std::thread::sleep(Duration::from_millis(500));
    // On a slow machine the node may have closed by now. Then this fails, and the answers must be there all the same.
    let _ = connection.try_send(SMUGGLED);
    for _ in 0..4 {
        assert!(connection.response().body == value);
    }
    assert_eq!(connection.response_head().status, 101);
    assert_eq!(connection.rest().escape_ascii().to_string(), "");
}

#[test]
fn an_upgrade_with_a_body_is_refused() {
    let cluster = Cluster::start(2);
    for (headers, body) in
        [("Content-Length: 5\r\n", "hello"), ("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n")]
    {
        let mut connection = cluster.connect(0);
        connection.send(format!("{UPGRADE}{headers}\r\n{body}"));
        let response = connection.response();
        crate::support::assert_refusal(&response, 400, headers);
        assert!(response.closes());
        connection.expect_closed();
    }
}
