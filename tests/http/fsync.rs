//! Writes that say with `fsync=` when they have to be on disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::support::{Connection, Launch, Node, Response, assert_refusal, entity, value, wait_until};

const ALL: [&str; 3] = ["always", "everysec", "never"];
const LARGE: usize = 400_000;

/// A write of a key that asks for this.
fn write(connection: &mut Connection, method: &str, key: &str, query: &str, body: Option<&[u8]>) -> Response {
    connection.request(method, &format!("{}&{query}", entity(key)), body)
}

#[test]
fn every_write_may_say_when_it_is_on_disk_and_a_crash_of_the_process_loses_none() {
    for fsync in ALL {
        let mut node = Launch::new().flag("--fsync", fsync).start();
        let mut connection = node.connect();
        let large = value(1, LARGE);
        for asked in ALL {
            let asks = format!("fsync={asked}");
            let mut write = |method, key: &str, query: &str, body: Option<&[u8]>| {
                let key = format!("{key}-{asked}");
                let answer = write(&mut connection, method, &key, &format!("{query}{asks}"), body);
                assert!(answer.header("etag").is_some(), "{method} {key}: {answer:?}");
                (answer.status, answer.text().to_owned())
            };
            let (created, gone) = ((201, String::new()), (202, String::new()));
            assert_eq!(write("PUT", "small", "", Some(b"value")), created);
            assert_eq!(write("PUT", "large", "", Some(&large)), created);
            assert_eq!(write("PUT", "brief", "ttl=1h&", Some(b"value")), created);
            assert_eq!(write("POST", "brief", "ttl=2h&", None), (200, String::new()));
            assert_eq!(write("PUT", "gone", "", Some(b"value")), created);
            assert_eq!(write("DELETE", "gone", "", None), gone);
            assert_eq!(write("POST", "number", "increment=41&", None), (200, "41".to_owned()));
            assert_eq!(write("POST", "number", "increment=1&", None), (200, "42".to_owned()));
        }
        node.crash();
        let mut connection = node.connect();
        for asked in ALL {
            let mut found = |key: &str| connection.value(format!("{key}-{asked}"));
            assert_eq!(found("small").as_deref(), Some(&b"value"[..]), "{fsync}, {asked}");
            assert!(found("large").as_ref() == Some(&large), "{fsync}, {asked}");
            assert_eq!(found("brief").as_deref(), Some(&b"value"[..]), "{fsync}, {asked}");
            assert_eq!(found("gone"), None, "{fsync}, {asked}");
            assert_eq!(found("number").as_deref(), Some(&b"42"[..]), "{fsync}, {asked}");
        }
    }
}

#[test]
fn what_is_no_durability_is_refused_and_nothing_is_written() {
    let node = Node::start();
    let mut connection = node.connect();
    connection.put("key", b"7");
    let wrong = ["", "=", "=Always", "=ALWAYS", "=1", "=true", "=always%20", "=every+sec", "=%00", "=none"];
    for wrong in wrong.map(|wrong| format!("fsync{wrong}")) {
        for (method, more, body) in [
            ("PUT", "", Some(&b"8"[..])),
            ("DELETE", "", None),
            ("POST", "increment=1&", None),
            ("POST", "ttl=1h&", None),
        ] {
            let refused = write(&mut connection, method, "key", &format!("{more}{wrong}"), body);
            assert_refusal(&refused, 400, &format!("{method} {wrong}"));
            assert!(refused.text().contains("always, everysec or never"), "{}", refused.text());
        }
    }
    let twice = write(&mut connection, "PUT", "key", "fsync=always&fsync=always", Some(b"8"));
    assert_refusal(&twice, 400, "twice");
    for asked in ALL {
        let read = write(&mut connection, "GET", "key", &format!("fsync={asked}"), None);
        assert_refusal(&read, 400, "a read that asks");
        connection.send_request("HEAD", &format!("{}&fsync={asked}", entity("key")), None);
        assert_eq!(connection.response_to_head().status, 400);
    }
    assert_eq!(connection.value("key").as_deref(), Some(&b"7"[..]));
    assert_eq!(connection.get("key").header("ladoga-expires"), None);
}

/// How often the log was synced.
fn syncs(node: &Node) -> u64 {
    node.metrics().sum("ladoga_wal_sync_duration_seconds_count", &[]).expect("a histogram") as u64
}

#[test]
fn an_answer_waits_for_the_sync_that_was_asked_for_and_for_no_other() {
    for fsync in ["never", "always"] {
        let node = Launch::new().flag("--fsync", fsync).start();
        let mut connection = node.connect();
        connection.put("number", b"0");
        let before = syncs(&node);
        for _ in 0..20 {
            assert_eq!(write(&mut connection, "PUT", "key", "fsync=never", Some(b"value")).status, 201);
            assert_eq!(write(&mut connection, "POST", "number", "fsync=never&increment=1", None).status, 200);
        }
        assert_eq!(syncs(&node), before, "nobody asked");
        for round in 1..=5 {
            let count = before + 4 * round;
            assert_eq!(write(&mut connection, "PUT", "key", "fsync=always", Some(b"value")).status, 201);
            assert_eq!(
                write(&mut connection, "POST", "number", "fsync=always&increment=1", None).status,
                200
            );
            assert_eq!(write(&mut connection, "POST", "key", "fsync=always&ttl=1h", None).status, 200);
            assert_eq!(write(&mut connection, "DELETE", "key", "fsync=always", None).status, 202);
            assert_eq!(syncs(&node), count, "one for each, before its answer");
        }
        let before = syncs(&node);
        assert_eq!(write(&mut connection, "PUT", "key", "fsync=everysec", Some(b"value")).status, 201);
        wait_until("a sync within a second", || syncs(&node) == before + 1);
        let requested = node.metrics().sum("ladoga_commit_requested_syncs_total", &[]);
        assert_eq!(requested, Some(if fsync == "never" { 20.0 } else { 0.0 }));
    }
}

#[test]
fn writes_in_a_pipeline_are_answered_in_order_whatever_they_ask_for() {
    for fsync in ALL {
        let node = Launch::patient().flag("--fsync", fsync).start();
        let mut connection = node.connect();
        let asks = ["&fsync=always", "", "&fsync=never", "", "&fsync=everysec", "&fsync=always"];
        let mut requests = Vec::new();
        for round in 0..200 {
            let asks = asks[round % asks.len()];
            let (number, key) = (entity("number"), entity(format!("key{}", round % 7)));
            requests.push(format!("POST {number}&increment=1{asks} HTTP/1.1\r\nHost: h\r\n\r\n"));
            let put = format!("PUT {key}{asks} HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n{round:03}");
            requests.push(put);
            requests.push(format!("GET {key} HTTP/1.1\r\nHost: h\r\n\r\n"));
        }
        connection.send(requests.concat());
        for round in 0..200 {
            assert_eq!(connection.response().text(), (round + 1).to_string());
            assert_eq!(connection.response().status, 201);
            assert_eq!(connection.response().text(), format!("{round:03}"));
        }
    }
}

/// Clients of both kinds at once, on two event loops; the node is killed under them.
#[test]
fn what_was_acknowledged_is_there_after_a_crash_whatever_was_asked_beside_it() {
    for fsync in ALL {
        let mut node = Launch::patient().flag("--fsync", fsync).flag("--threads", "2").start();
        let address = node.address();
        let so_far: [AtomicU64; 6] = Default::default();
        let acknowledged: Vec<(String, u64)> = thread::scope(|scope| {
            let clients: Vec<_> = so_far
                .iter()
                .enumerate()
                .map(|(client, so_far)| {
                    scope.spawn(move || {
                        let asks = ["", "&fsync=always", "&fsync=never", "&fsync=everysec"][client % 4];
                        let (key, mut last) = (format!("key{client}"), 0);
                        let mut connection = Connection::open(address);
                        for round in 1_u64.. {
                            let target = format!("{}{asks}", entity(&key));
                            let body = round.to_string();
                            match connection.try_request("PUT", &target, Some(body.as_bytes())) {
                                Ok(answer) => assert_eq!(answer.status, 201, "{}", answer.text()),
                                Err(_) => break,
                            }
                            last = round;
                            so_far.store(round, Ordering::Relaxed);
                        }
                        (key, last)
                    })
                })
                .collect();
            wait_until("that each client has written", || {
                so_far.iter().all(|rounds| rounds.load(Ordering::Relaxed) > 20)
            });
            node.kill();
            clients.into_iter().map(|client| client.join().expect("a client")).collect()
        });
        node.start_again();
        for (key, last) in acknowledged {
            let found = node.connect().value(&key).expect("a value");
            let found: u64 = str::from_utf8(&found).expect("digits").parse().expect("a number");
            assert!(found == last || found == last + 1, "{key}: {found}, {last} was acknowledged, {fsync}");
        }
    }
}
