use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{Connection, Launch, Metrics, Node, assert_refusal, entity, wait_for, wait_until};

/// More than the node needs, and than it may have at any time.
const MANY: u64 = 512;

/// Connections that come together.
const CROWD: usize = 300;

/// Sets how many descriptors a node may have from now on.
fn limit(node: &Node, descriptors: u64) {
    let pid = Pid::from_raw(node.pid().try_into().expect("a number of a process")).expect("a process");
    let limit = Rlimit { current: Some(descriptors), maximum: Some(MANY) };
    prlimit(Some(pid), Resource::Nofile, limit).expect("a limit that is lower than before");
}

/// The lowest descriptor that a node does not have: the next one that it gets.
fn next_descriptor(node: &Node) -> u64 {
    let open = fs::read_dir(format!("/proc/{}/fd", node.pid())).expect("the descriptors of a process");
    let number = |name: fs::DirEntry| name.file_name().to_str().and_then(|name| name.parse().ok());
    let open: BTreeSet<u64> = open.flatten().filter_map(number).collect();
    (0..MANY).find(|number| !open.contains(number)).expect("fewer than there may be")
}

fn metrics(client: &mut Connection) -> Metrics {
    let response = client.request("GET", "/metrics", None);
    assert_eq!(response.status, 200, "{response:?}");
    Metrics::parse(response.text())
}

fn count(client: &mut Connection, name: &str) -> u64 {
    metrics(client).sum(name, &[]).expect("a metric") as u64
}

/// A connection that was refused, once what the node had open for a moment is used up.
fn refused(node: &Node, client: &mut Connection, kept: &mut Vec<Connection>) -> Connection {
    loop {
        let before =
            ["ladoga_connections", "ladoga_connections_refused_total"].map(|name| count(client, name));
        let late = node.connect();
        let is_refused = wait_for("a connection that is taken or refused", || {
            let is_taken = count(client, "ladoga_connections") > before[0];
            let is_refused = count(client, "ladoga_connections_refused_total") > before[1];
            (is_taken || is_refused).then_some(is_refused)
        });
        if is_refused {
            return late;
        }
        kept.push(late);
    }
}

/// Each connection that ended made room for one, and the next one was told of in the log: thousands of lines.
#[test]
fn connections_that_come_and_go_at_the_limit_do_not_fill_the_log() {
    let node = Launch::new().flag("--threads", "1").start();
    let (mut client, mut kept) = (node.connect(), Vec::new());
    wait_until("a node with one connection", || count(&mut client, "ladoga_connections") == 1);
    let began = Instant::now();
    limit(&node, next_descriptor(&node) + 1);
    drop(refused(&node, &mut client, &mut kept));
    let mut rounds = 0;
    while rounds < 40 {
        // None is left if the node needed the descriptor of the last one for something else, for a while.
        if let Some(connection) = kept.pop() {
            let before = count(&mut client, "ladoga_connections");
            drop(connection);
            wait_until("a connection that is gone", || count(&mut client, "ladoga_connections") < before);
        }
        let held = kept.len();
        drop(refused(&node, &mut client, &mut kept));
        rounds += usize::from(kept.len() > held);
    }
    let told = node.log().matches("cannot accept connections").count() as u64;
    // One a second: as many seconds as it took, however slow this machine is.
    let most = began.elapsed().as_secs() + 2;
    assert!((1..=most).contains(&told), "{told} lines, at most {most} expected");
}

/// They waited to be accepted, for as long as that took.
#[test]
fn who_comes_when_all_descriptors_are_taken_is_told_and_writes_come_back() {
    let node = Launch::new().flag("--threads", "2").flag("--memory", "16MiB").start();
    let (mut client, mut kept) = (node.connect(), Vec::new());
    client.put("key", b"value");
    let began = Instant::now();
    wait_until("a node with one connection", || count(&mut client, "ladoga_connections") == 1);
    limit(&node, next_descriptor(&node));
    for _ in 0..3 {
        let mut late = refused(&node, &mut client, &mut kept);
        let response = late.response();
        assert_refusal(&response, 503, "a connection without a descriptor");
        assert!(response.text().contains("open files and connections"), "{response:?}");
        late.expect_closed();
    }
    // Nor does one event loop serve a connection with what another one keeps for refusals: that would be the last of them.
    let mut crowd: Vec<Connection> = (0..CROWD).map(|_| node.connect()).collect();
    let mut served = 0;
    wait_until("an answer to each that is not served", || {
        served = count(&mut client, "ladoga_connections") as usize - 1 - kept.len();
        served + crowd.iter().filter(|late| late.is_answered()).count() == CROWD
    });
    // Those before may have been refused because of a file that was open for a moment.
    assert!(served <= 1, "{served} were served without a descriptor");
    for late in crowd.iter_mut().filter(|late| late.is_answered()) {
        assert_refusal(&late.response(), 503, "one of many connections without a descriptor");
    }
    assert_eq!(client.value("key").as_deref(), Some(&b"value"[..]), "what is there goes on");

    // Nor is there one for a table, or for the next segment of the log.
    let value = vec![b'v'; 16 << 10];
    let refused = (0..10_000).find_map(|number| {
        let response = client.request("PUT", &entity(format!("key{number}")), Some(&value));
        (response.status != 201).then_some(response)
    });
    assert_refusal(&refused.expect("a write that takes another file"), 503, "PUT");

    limit(&node, MANY);
    wait_until("writes that are taken again", || {
        client.request("PUT", &entity("more"), Some(&value)).status == 201
    });
    assert_eq!(node.connect().value("more").as_deref(), Some(&*value));
    let told = node.log().matches("cannot accept connections").count();
    // One a second of each of the two event loops; far fewer than connections in any case.
    let most = (2 * (began.elapsed().as_secs() as usize + 2)).clamp(6, 100);
    assert!((1..=most).contains(&told), "{told} lines for as many connections:\n{}", node.log());
}
