use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::model::Writer;
use crate::support::{Connection, Ladoga, Launch, Node, Random, files_below, range, wait_until};

const WRITERS: u64 = 4;

/// Kills a node `rounds` times while it writes, and compares what it has then with what it had acknowledged.
fn crash_under_load(fsync: &str, rounds: u64) {
    let mut node = Launch::patient().flag("--fsync", fsync).flag("--memory", "16MiB").start();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let mut random = Random::new(rounds);
    for _ in 0..rounds {
        write_and_kill(&mut node, &mut writers, 300 + random.below(2_000));
        node.start_again();
        verify(&node, &mut writers);
    }
    let tables = files_below(&node.data().join("tables"));
    assert!(!tables.is_empty(), "nothing was flushed, so the test did not test much");
    // One more time without a crash: stopping must not undo what recovering did.
    node.restart();
    verify(&node, &mut writers);
    node.stop();
    Ladoga::new(["check".as_ref(), node.data().as_os_str()]).run().expect_success();
}

/// Kills the node however the wait for the moment ends: without it the writers would write for ever.
struct Kill<'n>(&'n mut Node);

impl Drop for Kill<'_> {
    fn drop(&mut self) {
        self.0.kill();
    }
}

fn write_and_kill(node: &mut Node, writers: &mut [Writer], acknowledged: u64) {
    let address = node.address();
    let count = AtomicU64::new(0);
    thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                let count = &count;
                scope.spawn(move || writer.write_until_it_breaks(address, count))
            })
            .collect();
        let _end = Kill(node);
        wait_until("writes that are acknowledged", || {
            let somebody_gave_up = threads.iter().any(thread::ScopedJoinHandle::is_finished);
            somebody_gave_up || count.load(Ordering::Relaxed) >= acknowledged
        });
    });
    assert!(count.into_inner() >= acknowledged, "the node was gone before it was killed:\n{}", node.log());
}

fn verify(node: &Node, writers: &mut [Writer]) {
    let mut connection = node.connect();
    for writer in &mut *writers {
        writer.verify(&mut connection);
    }
    connection.send_request("GET", &range([0], None), None);
    assert_eq!(connection.response_head().status, 200);
    for expected in writers.iter().flat_map(Writer::records) {
        let found = connection.next_record().expect("a stream").expect("a record");
        assert_eq!(found.0.escape_ascii().to_string(), expected.0.escape_ascii().to_string());
        assert!(found.1 == expected.1, "{} has another value in the range", found.0.escape_ascii());
    }
    assert_eq!(connection.next_record().expect("the end of a stream"), None);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_with_fsync_always() {
    crash_under_load("always", 8);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_with_fsync_everysec() {
    crash_under_load("everysec", 8);
}

#[test]
fn nothing_acknowledged_is_lost_by_a_crash_with_fsync_never() {
    crash_under_load("never", 4);
}

#[test]
fn a_crash_while_starting_is_a_crash_like_any_other() {
    let mut node = Launch::patient().flag("--memory", "16MiB").start();
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    for round in 0..3 {
        write_and_kill(&mut node, &mut writers, 1_500);
        for attempt in 0..6 {
            node.spawn();
            // At once; once it listens, which is before it has opened its directory; once it serves.
            match (round + attempt) % 3 {
                0 => {}
                1 => wait_until("a node that listens", || Connection::try_open(node.address()).is_ok()),
                _ => node.wait_until_it_serves(),
            }
            node.kill();
        }
        node.start_again();
        verify(&node, &mut writers);
    }
}
