use std::path::Path;
use std::sync::Arc;
use std::thread;

use ladoga_env::Env;
use ladoga_env::real::RealClock;
use ladoga_env::sim::{self, Fault, Operation, SimDisk};
use ladoga_node::embedded::Embedded;
use ladoga_node::{Config, Node};
use ladoga_storage::{Durability, Options};

use crate::client::Client;

const DIR: &str = "/data";
const VALUE: [u8; 10_000] = [b'v'; 10_000];

/// A node over the engine, on a disk that is not there.
fn start(env: Env) -> Node<Embedded> {
    start_with(env, Durability::Always)
}

fn start_with(env: Env, durability: Durability) -> Node<Embedded> {
    let options = Options::new(16 << 20, durability);
    let store = Embedded::open(env.clone(), Path::new(DIR), options).expect("a store that opens");
    let any = "127.0.0.1:0".parse().expect("an address");
    let node =
        Node::start(Config::alone(vec![any], 2), Arc::new(RealClock::new()), env.net).expect("a free port");
    node.open(Arc::new(store));
    node
}

fn connect(node: &Node<Embedded>) -> Client {
    Client::connect(node.addresses()[0])
}

/// Bytes that do not compress.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.take(VALUE.len() / 8).flatten().collect()
}

/// Puts until a put is refused; answers how many were taken, and the status of the one that was not.
fn put_until_refused(client: &mut Client) -> (usize, u16) {
    for index in 0..10_000 {
        let answer = client.put(&format!("key{index}"), &noise(index as u64 + 1));
        if answer.status != 201 {
            return (index, answer.status);
        }
    }
    panic!("the disk never ends")
}

fn used_bytes(disk: &SimDisk) -> u64 {
    disk.paths().iter().filter_map(|path| disk.file_len(path).ok()).sum()
}

#[test]
fn a_full_disk_takes_deletes_and_reads_and_puts_again_when_there_is_room() {
    let (env, disk, _) = sim::env(1);
    let node = start(env);
    let mut client = connect(&node);
    disk.set_capacity(used_bytes(&disk) + (40 << 20));
    let (taken, status) = put_until_refused(&mut client);
    assert_eq!(status, 507, "after {taken}");
    // Compaction may make room; now it does not.
    disk.set_capacity(0);
    // The refused value was too long to be read and discarded.
    let mut client = connect(&node);
    assert_eq!(client.get("/v0/status").status, 200);
    while client.put("key0", b"small").status == 201 {
        thread::yield_now();
    }
    // Puts and deletes that are committed together fare differently.
    thread::scope(|scope| {
        for thread in 0..4 {
            let node = &node;
            scope.spawn(move || {
                let mut client = connect(node);
                for index in 0..50 {
                    let key = format!("key{}", thread * 50 + index);
                    if thread % 2 == 0 {
                        assert_eq!(client.put(&key, b"small").status, 507);
                    } else {
                        assert_eq!(client.delete(&key).status, 202);
                    }
                }
            });
        }
    });
    assert_eq!(client.get("/v0/entity?id=key1").body, noise(2));
    assert_eq!(client.get("/v0/entity?id=key50").status, 404);
    disk.set_capacity(None);
    while client.put("again", b"value").status == 507 {
        thread::yield_now();
    }
    assert_eq!(client.get("/v0/entity?id=again").text(), "value");
    assert_eq!(node.stop(), Ok(()));
}

#[test]
fn a_failed_sync_ends_the_writes_and_not_the_reads() {
    let (env, disk, _) = sim::env(2);
    let node = start(env);
    let mut client = connect(&node);
    assert_eq!(client.put("before", b"value").status, 201);
    // (The next segment may still be made meanwhile, and is synced for that.)
    disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("000001.wal"));
    let answer = client.put("failed", b"value");
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("\r\nretry-after: 1\r\n"), "{answer:?}");
    for _ in 0..3 {
        assert_eq!(client.put("after", b"value").status, 503);
        assert_eq!(client.delete("before").status, 503);
    }
    let status = client.get("/v0/status");
    assert_eq!(status.status, 503);
    assert!(status.text().contains("restarted") && status.text().contains("sync"), "{status:?}");
    assert_eq!(client.get("/v0/entity?id=before").text(), "value");
    assert!(client.get("/metrics").text().contains("ladoga_write_state{state=\"failed\"} 1\n"));
    // Whatever closing has to say about it, it ends.
    let _ = node.stop();
}

/// The same on a node that syncs nothing by itself, for a write that asks for it.
#[test]
fn a_failed_sync_that_was_asked_for_is_told_to_who_asked() {
    let (env, disk, _) = sim::env(2);
    let node = start_with(env, Durability::Never);
    let mut client = connect(&node);
    assert_eq!(client.put("before&fsync=always", b"value").status, 201);
    disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("000001.wal"));
    assert_eq!(client.put("plain", b"value").status, 201);
    // Behind it in the pipeline is a write that did not ask: it comes too late.
    client.send_put("failed&fsync=always", b"value");
    client.send_put("after", b"value");
    for _ in 0..2 {
        let answer = client.answer();
        assert_eq!(answer.status, 503);
        assert!(answer.text().contains("sync"), "{answer:?}");
    }
    assert_eq!(client.delete("before").status, 503);
    assert_eq!(client.get("/v0/entity?id=plain").text(), "value");
    assert_eq!(client.get("/v0/status").status, 503);
    // Whatever closing has to say about it, it ends.
    let _ = node.stop();
}

#[test]
fn what_memory_does_not_have_comes_from_the_disk() {
    for has_rings in [true, false] {
        let (env, disk, _) = sim::env(3);
        disk.set_rings(has_rings);
        fill_and_stop(&env, &disk);
        let node = start(env);
        let metrics = metrics_after_reads(&node);
        let rings =
            metrics.lines().find(|line| line.starts_with("ladoga_io_uring_event_loops ")).expect("a figure");
        assert_eq!(rings != "ladoga_io_uring_event_loops 0", has_rings, "{rings}");
        assert_eq!(!metrics.contains("ladoga_io_uring_reads_total 0\n"), has_rings, "{metrics}");
        // Large values, and the reads of the pool if there is no ring.
        assert!(!metrics.contains("ladoga_io_jobs_total 0\n"), "{metrics}");
        assert_eq!(node.stop(), Ok(()));
    }
}

/// Reads what is in tables; answers the metrics after that.
fn metrics_after_reads(node: &Node<Embedded>) -> String {
    let mut client = connect(node);
    for index in 0..500 {
        assert_eq!(client.get(&format!("/v0/entity?id=key{index}")).body, VALUE);
    }
    assert_eq!(client.get("/v0/entity?id=absent").status, 404);
    assert!(client.get("/v0/entity?id=large").body == vec![b'l'; 1 << 20]);
    client.get("/metrics").text().to_owned()
}

/// Leaves a closed store behind whose disk has nothing in the page cache.
fn fill_and_stop(env: &Env, disk: &SimDisk) {
    let node = start(env.clone());
    let mut client = connect(&node);
    for index in 0..500 {
        assert_eq!(client.put(&format!("key{index}"), &VALUE).status, 201);
    }
    let large = vec![b'l'; 1 << 20];
    assert_eq!(client.put("large", &large).status, 201);
    assert_eq!(node.stop(), Ok(()));
    disk.set_cached(false);
}

#[test]
fn a_disk_that_fails_a_read_fails_that_read_only() {
    for has_rings in [true, false] {
        let (env, disk, _) = sim::env(6);
        disk.set_rings(has_rings);
        fill_and_stop(&env, &disk);
        let node = start(env);
        let mut client = connect(&node);
        assert_eq!(client.get("/v0/entity?id=key1").status, 200);
        // As long as it takes: what goes on in the background may read first.
        disk.fail_operation(0, Fault::io().on(Operation::Read).on_path("tables").sticky());
        let answer = client.get("/v0/entity?id=key400");
        disk.clear_faults();
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.text().contains("tables/") && answer.text().contains("os error 5"), "{answer:?}");
        assert_eq!(client.get("/v0/entity?id=key400").body, VALUE);
        assert_eq!(node.stop(), Ok(()));
    }
}

#[test]
fn a_clock_that_was_set_back_does_not_make_writes_older() {
    let (env, _disk, clock) = sim::env(4);
    let node = start(env.clone());
    assert_eq!(connect(&node).put("k", b"first").status, 201);
    assert_eq!(node.stop(), Ok(()));
    clock.jump_wall_ms(-1_000_000);
    let node = start(env);
    let mut client = connect(&node);
    assert_eq!(client.put("k", b"second").status, 201);
    assert_eq!(client.get("/v0/entity?id=k").text(), "second");
    assert_eq!(node.stop(), Ok(()));
}

#[test]
fn many_writers_share_groups_and_all_are_answered() {
    const WRITERS: usize = 16;
    let (env, _disk, _) = sim::env(5);
    let node = start(env);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let node = &node;
            scope.spawn(move || {
                let mut client = connect(node);
                for index in 0..200 {
                    let key = format!("{writer}-{index}");
                    assert_eq!(client.put(&key, key.as_bytes()).status, 201);
                    assert_eq!(client.get(&format!("/v0/entity?id={key}")).text(), key);
                }
            });
        }
    });
    let metrics = connect(&node).get("/metrics");
    let entries = format!("ladoga_commit_group_entries_sum {}.0\n", WRITERS * 200);
    assert!(metrics.text().contains(&entries), "{}", metrics.text());
    assert!(metrics.text().contains("ladoga_commit_queue_cost_units 0\n"), "{}", metrics.text());
    assert_eq!(node.stop(), Ok(()));
}
