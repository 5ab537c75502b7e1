//! Many operations in one request, through a node of a cluster.

use std::thread;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::support::{Connection, assert_refusal, entity, value, wait_until};

fn ask(connection: &mut Connection, query: &str, operations: &[Value]) -> Vec<Value> {
    let body = operations.iter().map(|operation| format!("{operation}\n")).collect::<Vec<_>>().concat();
    let response = connection.request("POST", &format!("/v0/batch{query}"), Some(body.as_bytes()));
    assert_eq!(response.status, 200, "{}", response.text());
    let answers: Vec<Value> =
        response.text().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(answers.len(), operations.len(), "{answers:?}");
    answers
}

fn send(connection: &mut Connection, operations: &[Value]) {
    let body = operations.iter().map(|operation| format!("{operation}\n")).collect::<Vec<_>>().concat();
    connection.send_request("POST", "/v0/batch", Some(body.as_bytes()));
}

fn statuses(answers: &[Value]) -> Vec<u64> {
    answers.iter().map(|answer| answer["status"].as_u64().expect("a status")).collect()
}

#[test]
fn operations_go_to_the_replicas_of_their_keys() {
    let cluster = Cluster::start(3);
    let mut connection = cluster.connect(0);
    let puts: Vec<Value> =
        (0..500).map(|n| json!({"op": "put", "key": format!("key{n}"), "value": n.to_string()})).collect();
    assert!(statuses(&ask(&mut connection, "", &puts)).iter().all(|&status| status == 201));
    let gets: Vec<Value> = (0..500).map(|n| json!({"op": "get", "key": format!("key{n}")})).collect();
    for node in 0..3 {
        let found = ask(&mut cluster.connect(node), "?replicas=3/3", &gets);
        for (number, answer) in found.iter().enumerate() {
            assert_eq!((&answer["status"], &answer["value"]), (&json!(200), &json!(number.to_string())));
        }
    }
    let mixed = [
        json!({"op": "increment", "key": "key7", "by": 35}),
        json!({"op": "get", "key": "key7"}),
        json!({"op": "put", "key": "key7", "value": "x", "if_none_match": "*"}),
        json!({"op": "delete", "key": "key7", "if_match": "*"}),
        json!({"op": "get", "key": "key7"}),
        json!({"op": "put", "key": "key7", "value": "back", "if_none_match": "*", "ttl": "1h"}),
    ];
    let found = ask(&mut cluster.connect(1), "", &mixed);
    assert_eq!(statuses(&found), [200, 200, 412, 202, 404, 201]);
    assert_eq!(found[1]["value"], "42");
    assert_eq!(cluster.get(2, "key7", "3/3").as_deref(), Some(&b"back"[..]));
    // Conditions need a majority; plain writes do not.
    let found = ask(
        &mut connection,
        "?replicas=1/3",
        &[
            json!({"op": "put", "key": "a", "value": "1"}),
            json!({"op": "delete", "key": "a", "if_match": "*"}),
            json!({"op": "increment", "key": "a"}),
        ],
    );
    assert_eq!(statuses(&found), [201, 400, 400]);
}

#[test]
fn all_or_nothing_is_refused_and_the_connection_goes_on() {
    let cluster = Cluster::start(2);
    let mut connection = cluster.connect(0);
    let line = b"{\"op\":\"put\",\"key\":\"a\",\"value\":\"1\"}\n";
    let refused = connection.request("POST", "/v0/batch?atomic=true", Some(line));
    assert_refusal(&refused, 400, "atomic in a cluster");
    assert!(refused.text().contains("a node on its own"), "{}", refused.text());
    assert!(!refused.closes());
    assert_eq!(ask(&mut connection, "", &[json!({"op": "get", "key": "a"})])[0]["status"], 404);
}

#[test]
fn lines_of_a_key_keep_their_order_and_each_is_counted_once() {
    const BATCHES: usize = 3;
    const SHARED: usize = 5;
    let cluster = Cluster::start(3);
    let operations = |batch: usize| {
        let of_round = move |round: usize| {
            let own = format!("own{batch}");
            [
                json!({"op": "put", "key": own, "value": round.to_string()}),
                json!({"op": "increment", "key": format!("shared{}", round % SHARED)}),
                json!({"op": "get", "key": own}),
            ]
        };
        (0..60).flat_map(of_round).collect::<Vec<_>>()
    };
    // Of each shared key: increments that happened, and those of which nobody knows, because several nodes decided at once.
    let mut sums = [(0, 0); SHARED];
    let found: Vec<Vec<Value>> = thread::scope(|scope| {
        let asking: Vec<_> = (0..BATCHES)
            .map(|batch| {
                let (cluster, operations) = (&cluster, operations(batch));
                scope.spawn(move || ask(&mut cluster.connect(batch), "", &operations))
            })
            .collect();
        asking.into_iter().map(|asking| asking.join().expect("answers")).collect()
    });
    for (round, three) in found.iter().flat_map(|found| found.chunks(3).enumerate()) {
        assert_eq!((&three[0]["status"], &three[2]["status"]), (&json!(201), &json!(200)), "{three:?}");
        assert_eq!(three[2]["value"], round.to_string());
        let (happened, unknown) = &mut sums[round % SHARED];
        match three[1]["status"].as_u64() {
            Some(200) => *happened += 1,
            Some(504) => *unknown += 1,
            status => assert_eq!(status, Some(503), "{three:?}"),
        }
    }
    for (number, (happened, unknown)) in sums.into_iter().enumerate() {
        let sum = cluster.get(0, &format!("shared{number}"), "3/3").expect("a number");
        let sum: i32 = String::from_utf8(sum).expect("digits").parse().expect("a number");
        assert!((happened..=happened + unknown).contains(&sum), "{sum}: {happened} and maybe {unknown}");
        assert!(happened > 0);
    }
}

/// It is longer than what nodes send each other in one piece.
#[test]
fn a_value_may_be_as_long_as_a_line_allows() {
    let cluster = Cluster::start(3);
    let mut connection = cluster.connect(0);
    for length in [262_143, 262_144, 327_680, 400_000, 524_000] {
        let value = "v".repeat(length);
        let lines = [
            json!({"op": "put", "key": "k", "value": value, "ttl": "1h"}),
            json!({"op": "get", "key": "none"}),
        ];
        assert_eq!(statuses(&ask(&mut connection, "", &lines)), [201, 404], "{length}");
        assert!(cluster.get(1, "k", "3/3") == Some(value.into_bytes()), "{length}");
    }
    assert!(!cluster.nodes[0].log().contains("panicked"));
}

#[test]
fn a_node_that_is_down_fails_the_lines_that_need_it_and_no_others() {
    let mut cluster = Cluster::start(3);
    let mut connection = cluster.connect(0);
    ask(&mut connection, "?replicas=3/3", &[json!({"op": "put", "key": "a", "value": "1"})]);
    cluster.nodes[2].kill();
    let get = [json!({"op": "get", "key": "a"})];
    assert_eq!(statuses(&ask(&mut connection, "", &get)), [200]);
    let failed = ask(&mut connection, "?replicas=3/3", &get);
    assert_eq!(statuses(&failed), [504]);
    assert!(failed[0]["error"].as_str().expect("a reason").contains("replicas answered"), "{failed:?}");
    assert_eq!(statuses(&ask(&mut connection, "", &get)), [200], "the connection goes on");
}

#[test]
fn a_batch_finds_what_single_requests_find() {
    let mut cluster = Cluster::start(3);
    // Some on two nodes only, some deleted, some too large for a frame, some that never were.
    for n in 0..150 {
        let key = format!("key{n}");
        let value = vec![b'a' + (n % 26) as u8; if n % 50 == 0 { 300 << 10 } else { 10 + n }];
        cluster.put(n % 3, &key, "3/3", &value);
    }
    cluster.nodes[2].kill();
    for n in (0..150).step_by(7) {
        cluster.put(n % 2, &format!("key{n}"), "2/3", b"new");
    }
    for n in (3..150).step_by(11) {
        cluster.delete(n % 2, &format!("key{n}"), "2/3");
    }
    cluster.nodes[2].start_again();
    cluster.wait_until_all_answer();
    let keys: Vec<String> = (0..200).map(|n| format!("key{n}")).collect();
    let gets: Vec<Value> = keys.iter().map(|key| json!({"op": "get", "key": key})).collect();
    for (node, replicas) in [(2, "2/3"), (0, "3/3"), (1, "2/3")] {
        let found = ask(&mut cluster.connect(node), &format!("?replicas={replicas}"), &gets);
        for (key, answer) in keys.iter().zip(&found) {
            let single = cluster.get(node, key, replicas);
            let text = answer["value"].as_str().map(|text| text.as_bytes().to_vec());
            match answer["status"].as_u64() {
                // What is not in memory always comes in base64.
                Some(200) if text.is_none() => {
                    let length = answer["value_base64"].as_str().expect("a value").len();
                    assert_eq!(single.expect("a value").len(), length / 4 * 3, "{key}");
                }
                Some(200) => assert_eq!(text, single, "{key}"),
                status => assert_eq!((status, single), (Some(404), None), "{key}"),
            }
        }
    }
}

/// They had the turns of their keys for as long as the client took.
#[test]
fn lines_behind_a_large_value_do_not_wait_until_its_client_has_taken_it() {
    let cluster = Cluster::start(3);
    cluster.put(0, "large", "3/3", &value(1, 16 << 20));
    let keys: Vec<String> = (0..8).map(|n| format!("key{n}")).collect();
    let get = json!({"op": "get", "key": "large"});
    let increments = keys.iter().map(|key| json!({"op": "increment", "key": key}));
    let mut slow = cluster.connect(0);
    slow.limit_receiving_to(4 << 10);
    send(&mut slow, &[get].into_iter().chain(increments).collect::<Vec<_>>());
    assert_eq!(slow.response_head().status, 200);
    for key in &keys {
        wait_until(key, || cluster.get(1, key, "2/3").as_deref() == Some(b"1"));
        let sum = cluster.connect(0).request("POST", &format!("{}&increment=1", entity(key)), None);
        assert_eq!((sum.status, sum.text()), (200, "2"), "{key}");
    }
}

/// Up to 16 MiB of values waited for each of these, and counted nowhere.
#[test]
fn long_values_behind_short_ones_go_away_if_nobody_takes_them() {
    const CLIENTS: usize = 4;
    let cluster = Cluster::start(3);
    let get = |key: String| json!({"op": "get", "key": key});
    let mut gets: Vec<Value> = (0..16).map(|n| get(format!("short{n}"))).collect();
    for n in 0..64 {
        cluster.put(n % 3, &format!("long{n}"), "3/3", &value(n as u64, 250_000));
        gets.push(get(format!("long{n}")));
    }
    for n in 0..16 {
        cluster.put(n % 3, &format!("short{n}"), "3/3", b"short");
    }
    let slow: Vec<Connection> = (0..CLIENTS)
        .map(|_| {
            let mut client = cluster.connect(0);
            client.limit_receiving_to(4 << 10);
            send(&mut client, &gets);
            client
        })
        .collect();
    // One has room, or two.
    wait_until("clients that give way", || {
        let evicted = cluster.nodes[0].metrics().sum("ladoga_slow_clients_evicted_total", &["value"]);
        evicted.expect("a count") >= (CLIENTS - 2) as f64
    });
    drop(slow);
    assert!(statuses(&ask(&mut cluster.connect(0), "", &gets)).iter().all(|&status| status == 200));
}
