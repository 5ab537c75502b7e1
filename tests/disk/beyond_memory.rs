use std::process::Command;
use std::thread;

use crate::filled::{Flipped, files, key, place_of, record};
use crate::support::{Launch, Node, Random, assert_refusal, entity, wait_until};

/// More than fits into the memory of the node.
const RECORDS: u64 = 6_000;
const READERS: u64 = 8;
const EVENT_LOOPS: f64 = 2.0;

/// How a node reads from the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Ring,
    Pool,
}

/// A node with more records than memory, which was stopped; nothing of its tables is in the page cache.
fn filled(disk_reads: &str) -> Node {
    let launch = Launch::patient().flag("--memory", "16MiB").flag("--fsync", "never").flag("--threads", "2");
    let mut node = launch.env("LADOGA_DISK_READS", disk_reads).start();
    let mut connection = node.connect();
    for index in 0..RECORDS {
        connection.put(key(index), &record(index));
    }
    drop(connection);
    node.stop();
    forget_tables(&node);
    node
}

/// Makes the system drop the tables from its page cache.
fn forget_tables(node: &Node) {
    for file in files(node, "tables") {
        let argument = format!("of={}", file.display());
        let options = [&argument, "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
        let status = Command::new("dd").args(options).status().expect("dd, to empty the page cache");
        assert!(status.success(), "the page cache of {} could not be emptied", file.display());
    }
}

/// Starts it, on each of its loops, and answers how it reads from the disk, which its log and its metrics say alike.
fn start(node: &mut Node, disk_reads: &str) -> Way {
    node.start_again();
    let log = node.log();
    let is_ring = log.contains("disk reads by io_uring");
    assert!(is_ring || log.contains("disk reads by threads ("), "{log}");
    assert!(!is_ring || disk_reads == "auto", "{log}");
    if is_ring { Way::Ring } else { Way::Pool }
}

fn figure(node: &Node, name: &str) -> f64 {
    node.metrics().sum(name, &[]).unwrap_or_else(|| panic!("no metric {name}"))
}

/// The node has read from the disk in this way, and in no other.
#[track_caller]
fn assert_read_by(node: &Node, way: Way) {
    let (rings, by_ring) =
        (figure(node, "ladoga_io_uring_event_loops"), figure(node, "ladoga_io_uring_reads_total"));
    let by_pool = figure(node, "ladoga_io_jobs_total");
    match way {
        Way::Ring => {
            assert!((1.0..=EVENT_LOOPS).contains(&rings), "{rings} rings");
            assert!(by_ring > 100.0, "{by_ring} reads by the ring");
        }
        Way::Pool => {
            assert!(rings < 1.0 && by_ring < 1.0, "{rings} rings, {by_ring} reads by them");
            assert!(by_pool > 100.0, "{by_pool} reads by the pool");
        }
    }
}

fn read_at_random(node: &Node) {
    thread::scope(|scope| {
        for reader in 0..READERS {
            scope.spawn(move || {
                let (mut connection, mut random) = (node.connect(), Random::new(reader + 1));
                for _ in 0..RECORDS / READERS {
                    let index = random.below(RECORDS);
                    let found = connection.value(key(index));
                    assert!(found == Some(record(index)), "{} is something else", key(index));
                    assert_eq!(connection.value(format!("no-{index}")), None);
                }
            });
        }
    });
}

#[test]
fn what_is_larger_than_memory_is_read_by_the_ring_and_by_threads_alike() {
    for disk_reads in ["auto", "pool"] {
        let mut node = filled(disk_reads);
        let way = start(&mut node, disk_reads);
        read_at_random(&node);
        assert_read_by(&node, way);
        assert!(figure(&node, "ladoga_io_uring_reads_waiting") < 1.0);
        node.stop();
    }
}

#[test]
fn clients_that_go_while_their_reads_are_under_way_harm_nobody() {
    for disk_reads in ["auto", "pool"] {
        let mut node = filled(disk_reads);
        let way = start(&mut node, disk_reads);
        thread::scope(|scope| {
            for reader in 0..READERS {
                let node = &node;
                scope.spawn(move || {
                    let mut random = Random::new(reader + 100);
                    for _ in 0..60 {
                        let mut connection = node.connect();
                        for _ in 0..8 {
                            connection.send_request("GET", &entity(key(random.below(RECORDS))), None);
                        }
                    }
                });
            }
        });
        wait_until("the reads of clients that have gone", || {
            figure(&node, "ladoga_io_uring_reads_waiting") < 1.0
        });
        read_at_random(&node);
        assert_read_by(&node, way);
        // Some in flight: stopping waits for them.
        let mut connections: Vec<_> = (0..READERS).map(|_| node.connect()).collect();
        forget_tables(&node);
        for (index, connection) in connections.iter_mut().enumerate() {
            connection.send_request("GET", &entity(key(index as u64 * 700 + 1)), None);
        }
        node.stop();
    }
}

#[test]
fn a_corrupt_block_fails_its_reads_whoever_reads_it() {
    for disk_reads in ["auto", "pool"] {
        let mut node = filled(disk_reads);
        let tables = files(&node, "tables");
        let found = (0..RECORDS).find_map(|index| Some((index, place_of(&tables, &record(index))?)));
        let (index, (file, offset)) = found.expect("a record in a table");
        let _flipped = Flipped::new(&file, offset, 4);
        forget_tables(&node);
        start(&mut node, disk_reads);
        let mut connection = node.connect();
        let response = connection.get(key(index));
        assert_refusal(&response, 500, "GET of a value in a corrupt block");
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(response.text().contains(name) && response.text().contains("offset"), "{}", response.text());
        assert!(figure(&node, "ladoga_corrupt_reads_total") >= 1.0);
        let far = (index + RECORDS / 2) % RECORDS;
        assert!(connection.value(key(far)) == Some(record(far)), "another block is not harmed");
        node.stop();
    }
}
