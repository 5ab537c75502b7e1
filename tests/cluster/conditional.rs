//! Writes that depend on what is there, decided by the nodes of a key together.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::adding::{Added, OverWhenDropped, addresses};
use crate::cluster::{Cluster, launches, target};
use crate::support::{Connection, Launch, Random, Response, assert_refusal, value, wait_for, wait_until};

const LARGE: usize = 700_000;

/// A request with a condition.
fn ask(
    connection: &mut Connection,
    method: &str,
    target: &str,
    headers: &str,
    body: Option<&[u8]>,
) -> Response {
    send(connection, (method, target, headers), body).expect("a node that reads");
    connection.response()
}

fn send(
    connection: &mut Connection,
    (method, target, headers): (&str, &str, &str),
    body: Option<&[u8]>,
) -> std::io::Result<()> {
    let length = body.map_or_else(String::new, |body| format!("Content-Length: {}\r\n", body.len()));
    let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{headers}{length}\r\n");
    connection.try_send([head.as_bytes(), body.unwrap_or_default()].concat())
}

/// The same over a connection of its own; `None` if the node went away.
pub(crate) fn try_ask(
    address: SocketAddr,
    request: (&str, &str, &str),
    body: Option<&[u8]>,
) -> Option<Response> {
    let mut connection = Connection::try_open(address).ok()?;
    send(&mut connection, request, body).ok()?;
    connection.try_response().ok()
}

#[track_caller]
fn etag(response: &Response) -> String {
    response.header("etag").unwrap_or_else(|| panic!("no ETag: {response:?}")).to_owned()
}

/// Nodes whose promises end after a while that a test can wait for.
pub(crate) fn impatient() -> Vec<Launch> {
    let with_timeout = |launch: Launch| launch.env("LADOGA_QUORUM_TIMEOUT_MS", "20000");
    launches(3).into_iter().map(with_timeout).collect()
}

#[test]
fn a_write_with_a_condition_happens_if_that_is_true_whichever_nodes_are_asked() {
    let cluster = Cluster::start(3);
    for (round, length) in [5, 100_000, LARGE].into_iter().enumerate() {
        let [first, second] = [1, 2].map(|seed| value(seed, length));
        for replicas in ["", "1/1", "2/2", "2/3", "3/3"] {
            let target = target(&format!("key{length}-{replicas}"), replicas);
            let mut node = round;
            // Each request through the next node, and over a connection of its own.
            let mut request = |method: &str, headers: &str, body: Option<&[u8]>| {
                node = (node + 1) % 3;
                ask(&mut cluster.connect(node), method, &target, headers, body)
            };
            assert_refusal(&request("PUT", "If-Match: *\r\n", Some(&first)), 412, "there is nothing");
            let created = request("PUT", "If-None-Match: *\r\n", Some(&first));
            assert_eq!((created.status, created.text()), (201, ""), "{target}");
            let taken = request("PUT", "If-None-Match: *\r\n", Some(&second));
            assert_refusal(&taken, 412, &target);
            assert_eq!(etag(&taken), etag(&created), "what is there is told");
            let if_first = format!("If-Match: {}\r\n", etag(&created));
            let replaced = request("PUT", &if_first, Some(&second));
            assert_eq!((replaced.status, replaced.text()), (201, ""), "{target}");
            let too_late = request("PUT", &if_first, Some(&first));
            assert_refusal(&too_late, 412, &target);
            assert_eq!(etag(&too_late), etag(&replaced));
            let read = request("GET", "", None);
            assert!(read.body == second && etag(&read) == etag(&replaced), "{target}");
            let unchanged = request("GET", &format!("If-None-Match: {}\r\n", etag(&read)), None);
            assert_eq!((unchanged.status, etag(&unchanged)), (304, etag(&read)));
            assert_refusal(&request("DELETE", &if_first, None), 412, &target);
            let deleted = request("DELETE", &format!("If-Match: {}\r\n", etag(&replaced)), None);
            assert_eq!(deleted.status, 202, "{target}: {}", deleted.text());
            let gone = request("GET", "", None);
            assert_eq!((gone.status, etag(&gone)), (404, etag(&deleted)), "{target}");
            let again = request("DELETE", "If-Match: *\r\n", None);
            assert_eq!((again.status, etag(&again)), (412, etag(&deleted)), "{target}");
            let created = request("PUT", "If-None-Match: *\r\n", Some(&first));
            assert_eq!(created.status, 201, "a deletion is as if nothing were there: {}", created.text());
        }
    }
}

/// Nobody else writes the key, so that cannot be the reason.
#[test]
fn a_write_with_a_condition_that_needs_a_node_that_is_gone_names_it() {
    let mut cluster = Cluster::start(3);
    let requests = [
        ("PUT", "If-Match: *\r\n", "3/3", Some(&b"2"[..])),
        ("DELETE", "If-Match: *\r\n", "3/3", None),
        ("POST", "", "3/3&increment=1", None),
    ];
    let keys: Vec<String> = (0..15).map(|n| format!("n{n}")).collect();
    keys.iter().for_each(|key| cluster.put(0, key, "3/3", b"1"));
    cluster.nodes[2].kill();
    let gone = cluster.nodes[2].url();
    for (n, key) in keys.iter().enumerate() {
        let (method, condition, query, body) = requests[n % requests.len()];
        let refused = ask(&mut cluster.connect(n % 2), method, &target(key, query), condition, body);
        assert_refusal(&refused, 504, method);
        let text = refused.text();
        assert!(text.contains("of 3 replicas answered, expected 3") && text.contains(&gone), "{text}");
    }
}

#[test]
fn numbers_are_added_to_and_what_is_none_is_left_alone() {
    let cluster = Cluster::start(3);
    let add = |node: usize, key: &str, by: &str| {
        cluster.request(node, "POST", key, &format!("2/3&increment={by}"), None)
    };
    for (n, (by, sum)) in [("1", "1"), ("41", "42"), ("-50", "-8"), ("0", "-8")].into_iter().enumerate() {
        let added = add(n % 3, "n", by);
        assert_eq!((added.status, added.text()), (200, sum));
        let read = cluster.request((n + 1) % 3, "GET", "n", "2/3", None);
        assert_eq!((read.text(), read.header("etag")), (sum, added.header("etag")));
    }
    for text in [&b"x"[..], b"9223372036854775807", &vec![b'1'; LARGE]] {
        cluster.put(0, "n", "2/3", text);
        assert_refusal(&add(1, "n", "1"), 409, "what cannot be added to");
        assert!(cluster.get(2, "n", "2/3").as_deref() == Some(text));
    }
    // What is added to lives for no longer.
    cluster.put(0, "brief", "2/3&ttl=1h", b"1");
    let expires = |node: usize| {
        cluster.request(node, "GET", "brief", "2/3", None).header("ladoga-expires").map(str::to_owned)
    };
    let before = expires(1);
    assert_eq!(add(2, "brief", "1").text(), "2");
    assert!(before.is_some() && expires(0) == before);
    let put = ask(
        &mut cluster.connect(1),
        "PUT",
        &format!("{}&ttl=2h", target("brief", "2/3")),
        "If-Match: *\r\n",
        Some(b"3"),
    );
    assert_eq!(put.status, 201);
    assert!(expires(0) > before);
}

/// What a node with the default of the key's replicas answers if a majority is away, and what if they are not asked for.
#[test]
fn a_majority_is_needed_and_a_minority_is_not() {
    let mut cluster = Cluster::launch(impatient());
    for replicas in ["1/2", "1/3"] {
        let mut connection = cluster.connect(0);
        let refused = ask(&mut connection, "DELETE", &target("k", replicas), "If-Match: *\r\n", None);
        assert_refusal(&refused, 400, replicas);
        let refused = cluster.request(0, "POST", "k", &format!("{replicas}&increment=1"), None);
        assert_refusal(&refused, 400, replicas);
    }
    cluster.put(0, "k", "3/3", b"5");
    cluster.nodes[2].kill();
    for n in 6..20 {
        let added = cluster.request(n % 2, "POST", "k", "2/3&increment=1", None);
        assert_eq!((added.status, added.text()), (200, &n.to_string()[..]));
    }
    let refused = cluster.request(0, "POST", "k", "3/3&increment=1", None);
    assert_refusal(&refused, 504, "an increment on all of which one is away");
    // Two of them have it, if they were asked before it was known that the third cannot be.
    let may_have_happened = refused.text().contains("may have happened");
    cluster.nodes[1].kill();
    let refused = cluster.request(0, "POST", "k", "2/3&increment=1", None);
    assert_refusal(&refused, 504, "an increment without a majority");
    assert!(
        !refused.text().contains("may have happened"),
        "nobody was asked to store it: {}",
        refused.text()
    );
    for node in [1, 2] {
        cluster.nodes[node].start_again();
    }
    // By the promises of before, nobody is held up.
    for node in 0..3 {
        let added = cluster.request(node, "POST", "k", "2/3&increment=1", None);
        assert_eq!(added.status, 200, "{}", added.text());
    }
    let sum = cluster.get(0, "k", "3/3").expect("a number");
    assert!(sum == b"22" || (sum == b"23" && may_have_happened), "5, 14 and 3: {sum:?}");
    wait_until("the copy of the node that was away", || cluster.get(2, "k", "1/3").as_ref() == Some(&sum));
}

#[test]
fn of_many_that_create_a_key_one_does() {
    const CLIENTS: usize = 12;
    const KEYS: usize = 20;
    let cluster = Cluster::start(3);
    let addresses = addresses(&cluster);
    let mut created_at_all = 0;
    for key in 0..KEYS {
        let target = target(&format!("lock{key}"), "");
        let answers: Vec<(usize, u16)> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (address, target) = (addresses[client % 3], &target);
                    scope.spawn(move || {
                        let body = client.to_string();
                        let request = ("PUT", &target[..], "If-None-Match: *\r\n");
                        let answer =
                            try_ask(address, request, Some(body.as_bytes())).expect("a node that lives");
                        (client, answer.status)
                    })
                })
                .collect();
            clients.into_iter().map(|client| client.join().expect("a client")).collect()
        });
        let with = |status: u16| answers.iter().filter(move |(_, other)| *other == status);
        assert!(answers.iter().all(|(_, status)| matches!(status, 201 | 412 | 503 | 504)), "{answers:?}");
        let created: Vec<usize> = with(201).map(|(client, _)| *client).collect();
        assert!(created.len() <= 1 && created.len() + with(504).count() >= 1, "{answers:?}");
        let stored = cluster.connect(key % 3).request("GET", &target, None).text().to_owned();
        if let Some(winner) = created.first() {
            assert_eq!(stored, winner.to_string(), "{answers:?}");
        }
        created_at_all += created.len();
    }
    assert!(created_at_all > KEYS / 2, "{created_at_all} of {KEYS}");
}

/// Whoever replaces a version does so once: no two writes that succeeded did it with the same `ETag`. Plain writes, which ask for
/// nothing, are in between.
#[test]
fn a_version_is_replaced_once_also_beside_plain_writes() {
    const CLIENTS: usize = 9;
    let mut cluster = Cluster::launch(impatient());
    let (addresses, target) = (addresses(&cluster), target("k", "2/3"));
    cluster.put(0, "k", "2/3", b"first");
    let is_over = AtomicBool::new(false);
    // By the version that was replaced, who did; and by its version, what each write that succeeded wrote.
    let replaced: Mutex<HashMap<String, String>> = Mutex::default();
    let written: Mutex<HashMap<String, String>> = Mutex::default();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (address, target, is_over) = (addresses[client % 3], &target, &is_over);
            let (replaced, written) = (&replaced, &written);
            scope.spawn(move || {
                for n in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let body = format!("{client}-{n}");
                    let is_plain = client < 3;
                    let Some(read) = try_ask(address, ("GET", target, ""), None) else { continue };
                    if read.status != 200 {
                        continue;
                    }
                    let expected = written.lock().expect("no panic").get(&etag(&read)).cloned();
                    assert!(expected.is_none_or(|expected| expected == read.text()), "{read:?}");
                    let condition =
                        if is_plain { String::new() } else { format!("If-Match: {}\r\n", etag(&read)) };
                    let Some(answer) = try_ask(address, ("PUT", target, &condition), Some(body.as_bytes()))
                    else {
                        continue;
                    };
                    assert!(matches!(answer.status, 201 | 412 | 503 | 504), "{answer:?}");
                    if answer.status == 201 {
                        written.lock().expect("no panic").insert(etag(&answer), body.clone());
                        if !is_plain {
                            let before = replaced.lock().expect("no panic").insert(etag(&read), body.clone());
                            assert_eq!(before, None, "{body} replaced what was replaced before");
                        }
                    }
                    if is_plain {
                        thread::sleep(Duration::from_millis(20));
                    }
                }
            });
        }
        // On a busy machine, few get through between two faults.
        let is_enough = || replaced.lock().expect("no panic").len() > CLIENTS;
        for round in (0..100).take_while(|&round| round < 4 || !is_enough()) {
            thread::sleep(Duration::from_millis(500));
            if round % 2 == 0 {
                cluster.nodes[1 + round / 2 % 2].crash();
            } else {
                cluster.nodes[2].signal("STOP");
                thread::sleep(Duration::from_millis(300));
                cluster.nodes[2].signal("CONT");
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let replaced = replaced.into_inner().expect("no panic");
    assert!(replaced.len() > CLIENTS, "{} conditional writes", replaced.len());
}

/// Its promises are on disk, and nobody says that they are void.
#[test]
fn a_coordinator_that_is_killed_blocks_no_key() {
    const KEYS: usize = 40;
    // A promise that blocked its key would do so for the 60 seconds that a request has.
    const PATIENCE: Duration = Duration::from_secs(45);
    let mut cluster = Cluster::start(3);
    let address = cluster.nodes[2].address();
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key{n}")).collect();
    let added = Added::default();
    for round in 0..3 {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let _over = OverWhenDropped(&is_over);
            for key in &keys {
                let (added, is_over) = (&added, &is_over);
                scope.spawn(move || added.add(address, &target(key, "2/3"), is_over));
            }
            thread::sleep(Duration::from_millis(700));
            wait_until("increments", || added.figures()[0] > KEYS as u64);
            cluster.nodes[2].kill();
        });
        let mut random = Random::new(round);
        for key in &keys {
            let began = Instant::now();
            let node = random.below(2) as usize;
            let (method, query, body, status) = [
                ("PUT", "2/3", Some(&b"7"[..]), &[201][..]),
                ("GET", "2/3", None, &[200, 404][..]),
                ("POST", "2/3&increment=1", None, &[200][..]),
            ][random.below(3) as usize];
            let answer = wait_for("a node that is not busy", || {
                let answer = cluster.request(node, method, key, query, body);
                // A node may have too much to write just now, beside all that other tests have it do.
                let is_busy = answer.status > 500 && answer.text().contains("over capacity");
                (!is_busy || began.elapsed() >= PATIENCE).then_some(answer)
            });
            assert!(status.contains(&answer.status), "{method} {key}: {answer:?}");
            assert!(began.elapsed() < PATIENCE, "{key} took {:?}", began.elapsed());
        }
        cluster.nodes[2].start_again();
    }
}

/// A value that is not to be stored need not be sent.
#[test]
fn a_client_that_expects_to_be_told_hears_of_its_condition_first() {
    let cluster = Cluster::start(3);
    cluster.put(0, "k", "2/3", b"value");
    for length in [100_000, LARGE] {
        let head = |condition: &str| {
            format!(
                "PUT {} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n{condition}\r\nContent-Length: {length}\r\n\r\n",
                target("k", "2/3")
            )
        };
        let mut connection = cluster.connect(1);
        connection.send(head("If-None-Match: *"));
        assert_refusal(&connection.response(), 412, "If-None-Match: *");
        let mut connection = cluster.connect(2);
        connection.send(head("If-Match: *"));
        assert_eq!(connection.response().status, 100);
        // What counts is whether it is true when it is written.
        cluster.delete(0, "k", "2/3");
        connection.send(value(1, length));
        assert_refusal(&connection.response(), 412, "it was deleted meanwhile");
        cluster.put(0, "k", "2/3", b"value");
    }
}

/// A value that was accepted while a node was away reaches it as any other.
#[test]
fn what_a_node_missed_it_gets_whatever_its_length() {
    let mut cluster = Cluster::launch(impatient());
    cluster.nodes[2].kill();
    for (key, length) in [("small", 5), ("large", LARGE)] {
        let put = ask(
            &mut cluster.connect(0),
            "PUT",
            &target(key, "2/3"),
            "If-None-Match: *\r\n",
            Some(&value(3, length)),
        );
        assert_eq!(put.status, 201, "{}", put.text());
    }
    cluster.nodes[2].start_again();
    wait_until("what it missed", || {
        cluster.get(2, "small", "1/3").is_some() && cluster.get(2, "large", "1/3").is_some()
    });
    cluster.nodes[0].kill();
    cluster.nodes[1].kill();
    assert!(cluster.get(2, "large", "1/3") == Some(value(3, LARGE)));
}
