//! Conditional requests of many clients for one key, through all nodes: they queue, and none is in the way of another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::adding::{Added, OverWhenDropped, addresses};
use crate::cluster::{Cluster, launches, target};
use crate::support::{Connection, Launch, Response, assert_refusal};

const CLIENTS: usize = 24;

fn with_fsync(launches: Vec<Launch>, fsync: &str) -> Vec<Launch> {
    launches.into_iter().map(|launch| launch.flag("--fsync", fsync)).collect()
}

#[test]
fn increments_through_all_nodes_succeed_while_nothing_happens_to_them() {
    for fsync in ["always", "everysec"] {
        let cluster = Cluster::launch(with_fsync(launches(3), fsync));
        for replicas in ["2/3", "3/3", "1/1"] {
            let (key, added) = (format!("n{}", &replicas[..1]), Added::default());
            let wait = || thread::sleep(Duration::from_secs(2));
            added.add_through(&addresses(&cluster), (&key, replicas), CLIENTS, wait);
            added.check(&cluster, (&key, replicas), CLIENTS as u64);
            let (refusals, [added, unknown, refused]) = (added.refusals(), added.figures());
            // The first of them meet before their nodes know that the key is shared.
            assert!(unknown <= CLIENTS as u64, "{fsync}, {replicas}: {added} added, {unknown} unknown");
            assert_eq!(refused, 0, "{fsync}, {replicas}: {added} added, {refusals:?}");
        }
    }
}

/// Promises are not synced one by one then. A process that is killed forgets none all the same.
#[test]
fn none_is_lost_or_counted_twice_if_nodes_are_killed_that_sync_nothing_before_they_answer() {
    let with_timeouts = |launch: Launch| {
        launch.env("LADOGA_PEER_TIMEOUT_MS", "2000").env("LADOGA_QUORUM_TIMEOUT_MS", "10000")
    };
    let launches = launches(3).into_iter().map(with_timeouts).collect();
    let mut cluster = Cluster::launch(with_fsync(launches, "everysec"));
    let (addresses, added) = (addresses(&cluster), Added::default());
    added.add_through(&addresses, ("n", "2/3"), CLIENTS, || {
        for round in 0..6 {
            thread::sleep(Duration::from_millis(500));
            cluster.nodes[round % 3].crash();
        }
        thread::sleep(Duration::from_millis(500));
    });
    added.check(&cluster, ("n", "3/3"), CLIENTS as u64);
}

/// A request with a condition.
fn ask(
    connection: &mut Connection,
    (method, target): (&str, &str),
    condition: &str,
    body: Option<&[u8]>,
) -> Response {
    let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
    let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{condition}{length}\r\n");
    connection.send([head.as_bytes(), body.unwrap_or_default()].concat());
    connection.response()
}

#[track_caller]
fn etag(response: &Response) -> String {
    response.header("etag").unwrap_or_else(|| panic!("no ETag: {response:?}")).to_owned()
}

/// While others keep the key in use through every node, conditions are checked, and the answers have the version that they were
/// checked against.
#[test]
fn a_client_is_told_the_same_whichever_node_decides() {
    let cluster = Cluster::start(3);
    let addresses = addresses(&cluster);
    let (key, is_over) = (target("k", "2/3"), AtomicBool::new(false));
    cluster.put(0, "k", "2/3", b"0");
    thread::scope(|scope| {
        let _over = OverWhenDropped(&is_over);
        for address in &addresses {
            let (key, is_over) = (&key, &is_over);
            scope.spawn(move || {
                let mut connection = Connection::open(*address);
                while !is_over.load(Ordering::Relaxed) {
                    // Never true: it is decided, and changes nothing.
                    let answer = ask(&mut connection, ("PUT", key), "If-None-Match: *\r\n", Some(b"taken"));
                    assert_eq!(answer.status, 412, "{}", answer.text());
                }
            });
        }
        for n in 0..30 {
            let request = |node: usize, method: &str, condition: &str, body: Option<&[u8]>| {
                ask(&mut cluster.connect((n + node) % 3), (method, &key), condition, body)
            };
            let if_match = format!("If-Match: {}\r\n", etag(&request(0, "GET", "", None)));
            let body = format!("value {n}");
            let put = request(1, "PUT", &if_match, Some(body.as_bytes()));
            assert_eq!(put.status, 201, "{}", put.text());
            let late = request(2, "PUT", &if_match, Some(b"late"));
            assert_eq!((late.status, etag(&late)), (412, etag(&put)));
            let added = cluster.request(n % 3, "POST", "k", "2/3&increment=1", None);
            assert_refusal(&added, 409, &body);
            let expires = cluster.request((n + 1) % 3, "POST", "k", "2/3&ttl=1h", None);
            assert_eq!(expires.status, 200, "{}", expires.text());
            let read = request(2, "GET", "", None);
            assert_eq!((read.text(), etag(&read)), (&body[..], etag(&expires)));
            assert_eq!(read.header("ladoga-expires"), expires.header("ladoga-expires"));
        }
    });
    let deleted = ask(&mut cluster.connect(1), ("DELETE", &key), "If-Match: *\r\n", None);
    assert_eq!(deleted.status, 202, "{}", deleted.text());
    assert_eq!(cluster.get(2, "k", "2/3"), None);
}
