use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::cluster::{Cluster, target};
use crate::support::{Connection, Node, Random};

/// What a client did with the register, from when to when.
#[derive(Debug, Clone, Copy)]
struct Operation {
    from: Instant,
    to: Instant,
    /// What was written, or read; 0 for nothing.
    value: u64,
    /// Whether it was acknowledged: a write that was not may take effect at any time from `from` on, or never.
    acknowledged: bool,
}

/// Whether a register with one writer, who writes rising values, was linearizable: each read has the last value that was
/// acknowledged before it began, or a later one that was begun before it ended; and reads that follow each other do not
/// go back. For one writer that is all there is to it.
fn check(writes: &[Operation], reads: &[Operation]) -> Result<(), String> {
    for read in reads {
        let acknowledged = writes.iter().filter(|write| write.acknowledged && write.to < read.from);
        let least = acknowledged.map(|write| write.value).max().unwrap_or(0);
        let begun = writes.iter().filter(|write| write.from < read.to).map(|write| write.value);
        let most = begun.max().unwrap_or(0);
        if !(least..=most).contains(&read.value) {
            return Err(format!("a read of {} where {least} to {most} was possible: {read:?}", read.value));
        }
        let before = reads.iter().filter(|other| other.to < read.from).map(|other| other.value).max();
        if before.is_some_and(|before| before > read.value) {
            return Err(format!("a read of {} after one of {before:?}: {read:?}", read.value));
        }
    }
    Ok(())
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let start = Instant::now();
    let at = |ms| start + std::time::Duration::from_millis(ms);
    let operation = |from, to, value| Operation { from: at(from), to: at(to), value, acknowledged: true };
    let writes = [operation(0, 10, 1), operation(20, 30, 2)];
    assert_eq!(check(&writes, &[operation(11, 12, 1), operation(21, 22, 2), operation(23, 24, 2)]), Ok(()));
    assert!(check(&writes, &[operation(11, 12, 0)]).is_err(), "an acknowledged write is missing");
    assert!(check(&writes, &[operation(11, 12, 2)]).is_err(), "a value before its write");
    assert!(check(&writes, &[operation(31, 32, 1)]).is_err(), "an old value");
    let back = [operation(21, 22, 2), operation(23, 24, 1)];
    assert!(check(&writes, &back).is_err(), "a value that comes and goes");
    let lost = [writes[0], Operation { acknowledged: false, ..writes[1] }];
    assert_eq!(check(&lost, &[operation(31, 32, 1), operation(33, 34, 2)]), Ok(()));
}

/// One request to one node; `None` if it was not answered, or answered that it could not be.
fn ask(address: SocketAddr, method: &str, key: &str, body: Option<&[u8]>) -> Option<(u16, Vec<u8>)> {
    let mut connection = Connection::try_open(address).ok()?;
    let response = connection.try_request(method, &target(key, "2/3"), body).ok()?;
    assert!(matches!(response.status, 200 | 201 | 404 | 503 | 504), "{response:?}");
    Some((response.status, response.body))
}

fn write_all(addresses: &[SocketAddr], key: &str, is_over: &AtomicBool) -> Vec<Operation> {
    let mut random = Random::new(key.len() as u64);
    let mut writes = Vec::new();
    for value in 1.. {
        let address = addresses[random.below(addresses.len() as u64) as usize];
        let from = Instant::now();
        let answer = ask(address, "PUT", key, Some(value.to_string().as_bytes()));
        let acknowledged = answer.is_some_and(|(status, _)| status == 201);
        writes.push(Operation { from, to: Instant::now(), value, acknowledged });
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    writes
}

fn read_all(addresses: &[SocketAddr], key: &str, seed: u64, is_over: &AtomicBool) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut reads = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let address = addresses[random.below(addresses.len() as u64) as usize];
        let from = Instant::now();
        let value = match ask(address, "GET", key, None) {
            Some((200, body)) => String::from_utf8_lossy(&body).parse().expect("a number"),
            Some((404, _)) => 0,
            _ => continue,
        };
        reads.push(Operation { from, to: Instant::now(), value, acknowledged: true });
    }
    reads
}

#[test]
fn a_quorum_is_linearizable_while_nodes_are_killed_and_frozen() {
    const KEYS: [&str; 2] = ["first", "another"];
    let mut cluster = Cluster::start(3);
    let addresses: Vec<_> = cluster.nodes.iter().map(Node::address).collect();
    // The coordinators are not frozen or killed in the middle of an answer, so that no client waits for one.
    let coordinators = &addresses[..2];
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut histories = Vec::new();
        for key in KEYS {
            let writer = scope.spawn({
                let is_over = &is_over;
                move || write_all(coordinators, key, is_over)
            });
            let readers = [1, 2].map(|seed| {
                let is_over = &is_over;
                scope.spawn(move || read_all(coordinators, key, seed, is_over))
            });
            histories.push((writer, readers));
        }
        for round in 0..6 {
            if round % 2 == 0 {
                cluster.nodes[2].crash();
            } else {
                cluster.nodes[2].signal("STOP");
                for n in 0..50 {
                    cluster.put(n % 2, "meanwhile", "2/3", b"value");
                }
                cluster.nodes[2].signal("CONT");
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for (writer, readers) in histories {
            let writes = writer.join().expect("a writer");
            let mut reads = Vec::new();
            for reader in readers {
                reads.extend(reader.join().expect("a reader"));
            }
            assert!(writes.len() > 20 && reads.len() > 20, "{} writes, {} reads", writes.len(), reads.len());
            check(&writes, &reads).expect("a linearizable history");
        }
    });
}
