use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ladoga_model::{HybridClock, Stamp, Version};
use ladoga_node::peers::NodeList;
use ladoga_node::peers::wire::{
    Answer, AsOf, FRAME_BYTES_MAX, Hello, Origin, Request, Statement, Versions, take_frame,
};

use crate::cluster::{Cluster, launches};
use crate::support::{DEADLINE, Node, wait_until};

const MIB: u64 = 1 << 20;
const MEMORY: u64 = 64 * MIB;
/// What a process may have beside its budget, for stacks and the allocator's own bookkeeping. (Code does not count: how much of it is
/// resident depends on the build.)
const OVERHEAD: u64 = 8 * MIB;
/// Memory of the connections that may stay in use, in caches and in the allocator.
const KEPT: u64 = 24 * MIB;
/// After so long, a node that reads nothing is taken not to read.
const STALLED: Duration = Duration::from_millis(200);

const UPGRADE: &[u8] =
    b"GET /v0/peer HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: ladoga-peer/3\r\n\r\n";

fn start() -> Cluster {
    let launches = launches(2).into_iter().map(|launch| launch.flag("--memory", "64MiB"));
    // Who holds others up is given up soon; peers that are slow because the machine is are none of those.
    Cluster::launch(launches.map(|launch| launch.env("LADOGA_PEER_TIMEOUT_MS", "3000")).collect())
}

/// A connection to the first node that pretends to be the second.
struct Greedy(TcpStream);

impl Greedy {
    /// Asks for the upgrade; `None` if that is refused.
    fn upgrade(address: SocketAddr) -> Option<Greedy> {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a socket");
        stream.set_write_timeout(Some(STALLED)).expect("a socket");
        stream.write_all(UPGRADE).expect("a node that reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("the head of an answer");
            head.push(byte[0]);
        }
        let is_refused = head.starts_with(b"HTTP/1.1 503 ");
        assert!(is_refused || head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
        (!is_refused).then_some(Greedy(stream))
    }

    fn greet(cluster: &Cluster) -> Option<Greedy> {
        let mut greedy = Greedy::upgrade(cluster.nodes[0].address())?;
        let list = NodeList::first(cluster.nodes.iter().map(Node::url)).expect("a list");
        let node = list.find(&cluster.nodes[1].url()).expect("it is in the list").0;
        let statement = Statement::default();
        let hello = Hello { versions: Versions::OWN, node, wall_ms: wall_ms(), statement, nodes: list };
        let mut out = BytesMut::new();
        Request::Hello(hello).put(&mut out, 0);
        greedy.0.write_all(&out).expect("a node that reads");
        // If there are too many, one that was upgraded may still be closed.
        matches!(greedy.answer()?, (0, Answer::Hello(_))).then_some(greedy)
    }

    /// The next answer; `None` at the end.
    fn answer(&mut self) -> Option<(u32, Answer)> {
        let mut input = BytesMut::new();
        loop {
            if let Some(frame) = take_frame(&mut input).expect("a frame") {
                return Some((frame.request, Answer::of(&frame).expect("an answer")));
            }
            let mut byte = [0];
            if self.0.read(&mut byte).ok()? == 0 {
                return None;
            }
            input.extend_from_slice(&byte);
        }
    }

    /// Sends until nothing is taken any more, or the connection is closed; answers how many bytes went.
    fn flood(&mut self, bytes: &[u8]) -> usize {
        let mut sent = 0;
        while sent < bytes.len() {
            match self.0.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        sent
    }
}

fn wall_ms() -> u64 {
    std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_millis() as u64
}

/// Writes with values of so many bytes, as frames.
fn writes(count: u32, value_bytes: usize) -> Vec<u8> {
    let value = Bytes::from(vec![b'v'; value_bytes]);
    let mut out = BytesMut::new();
    for number in 0..count {
        let version = Version { timestamp: HybridClock::at_wall_ms(wall_ms()) + u64::from(number), node: 1 };
        let write = Request::Write {
            key: Bytes::from(format!("flood{number:08}")),
            stamp: Stamp::new(version),
            value: Some(value.clone()),
            origin: Origin::Client,
            is_again: false,
            durability: None,
        };
        write.put(&mut out, number);
    }
    out.to_vec()
}

fn reads(count: u32, key: &'static str) -> Vec<u8> {
    let mut out = BytesMut::new();
    let read = Request::Read { key: Bytes::from(key), digest: false, origin: Origin::Client };
    (0..count).for_each(|number| read.put(&mut out, number));
    out.to_vec()
}

fn lists(count: u32) -> Vec<u8> {
    let slice = AsOf { before: u64::MAX, dropped_before: 0 };
    let list = Request::List { slice, partitions: Vec::new(), after: Bytes::new() };
    let mut out = BytesMut::new();
    (0..count).for_each(|number| list.put(&mut out, number));
    out.to_vec()
}

#[track_caller]
fn check_memory(cluster: &Cluster, when: &str) {
    let taken = cluster.nodes[0].anonymous_bytes();
    println!("{} MiB {when}", taken / MIB);
    assert!(taken < MEMORY + OVERHEAD, "{} MiB {when}", taken / MIB);
}

/// The other node, and clients, are served.
#[track_caller]
fn check_service(cluster: &Cluster) {
    for (node, length) in [(0, 10), (1, 10), (0, 100_000), (1, 100_000)] {
        let value = vec![b'o'; length];
        // Some are refused: if a flood of writes is more than the disk takes, and if connections that do not read are all
        // that there may be, until they are given up.
        wait_until("a write and a read that are served", || {
            let written = cluster.request(node, "PUT", "other", "2/2", Some(&value));
            let read = cluster.request(1 - node, "GET", "other", "2/2", None);
            assert!(matches!(written.status, 201 | 503 | 504), "{} {}", written.status, written.text());
            assert!(matches!(read.status, 200 | 404 | 503 | 504), "{} {}", read.status, read.text());
            written.status == 201 && read.status == 200 && read.body == value
        });
    }
}

/// The memory of such connections is freed once they are gone.
fn check_that_it_goes_back(cluster: &Cluster, before: u64) {
    let sessions = || cluster.nodes[0].metrics().sum("ladoga_peer_inbound_buffer_bytes", &[]);
    wait_until("the end of the connections", || sessions().is_some_and(|bytes| bytes < 1.0));
    wait_until("memory that is given back", || cluster.nodes[0].resident_bytes() < before + KEPT);
}

/// It took 123 MiB, with a budget of 64.
#[test]
fn peers_that_write_and_never_read_cost_little() {
    let cluster = start();
    check_service(&cluster);
    for value_bytes in [0, 1_000, 200_000] {
        let flood = writes((96_000_000 / (value_bytes + 70)).min(400_000) as u32, value_bytes);
        let mut greedy = Greedy::greet(&cluster).expect("one of few");
        let sent = greedy.flood(&flood);
        check_memory(&cluster, &format!("after {} MB of writes of {value_bytes} bytes", sent / 1_000_000));
        check_service(&cluster);
    }
    let sessions = || cluster.nodes[0].metrics().sum("ladoga_peer_inbound_buffer_bytes", &[]);
    wait_until("the end of the connections", || sessions().is_some_and(|bytes| bytes < 1.0));
    // What was written fills the caches.
    check_memory(&cluster, "after floods of writes");
}

#[test]
fn peers_that_ask_for_large_values_and_never_read_cost_little_and_hold_up_nobody() {
    let cluster = start();
    cluster.put(0, "large", "2/2", &vec![b'l'; 200_000]);
    let before = cluster.nodes[0].resident_bytes();
    let flood = reads(4_096, "large");
    let mut all: Vec<Greedy> = Vec::new();
    for _ in 0..40 {
        all.extend(Greedy::greet(&cluster));
        if let Some(greedy) = all.last_mut() {
            greedy.flood(&flood);
        }
    }
    assert!(all.len() > 20, "{} connections", all.len());
    check_memory(&cluster, "with peers that asked for 800 MB each and read nothing");
    check_service(&cluster);
    check_memory(&cluster, "while others were served");
    drop(all);
    check_service(&cluster);
    check_that_it_goes_back(&cluster, before);
}

/// They took 232 MiB, with a budget of 64, and 190 MiB were kept.
#[test]
fn peers_that_ask_for_lists_and_never_read_cost_little() {
    let cluster = start();
    let mut connection = cluster.connect(0);
    let tail = "k".repeat(1_000);
    for number in 0..4_000 {
        connection.put(format!("{number:05}{tail}"), b"");
    }
    let before = cluster.nodes[0].resident_bytes();
    let flood = lists(4_096);
    let mut all = Vec::new();
    for _ in 0..200 {
        if let Some(mut greedy) = Greedy::greet(&cluster) {
            greedy.flood(&flood);
            all.push(greedy);
        }
    }
    assert!((20..200).contains(&all.len()), "{} connections", all.len());
    check_memory(&cluster, "with peers that asked for 4,096 lists each and read nothing");
    check_service(&cluster);
    check_memory(&cluster, "while others were served");
    drop(all);
    check_service(&cluster);
    check_that_it_goes_back(&cluster, before);
}

/// Room was made for a frame as long as there may be one, as soon as its length had come.
#[test]
fn frames_that_do_not_come_to_their_end_cost_what_came() {
    let cluster = start();
    check_service(&cluster);
    let before = cluster.nodes[0].resident_bytes();
    let mut all = Vec::new();
    for index in 0..60 {
        let Some(mut greedy) = Greedy::greet(&cluster) else { continue };
        let mut half = (FRAME_BYTES_MAX as u32).to_le_bytes().to_vec();
        half.resize([8, 2_000, 20_000, 300_000][index % 4], 0);
        if index % 4 == 1 {
            for byte in &half {
                greedy.flood(&[*byte]);
            }
        } else {
            greedy.flood(&half);
        }
        all.push(greedy);
    }
    assert!(all.len() > 20, "{} connections", all.len());
    check_memory(&cluster, "with frames that do not come to their end");
    check_service(&cluster);
    drop(all);
    check_that_it_goes_back(&cluster, before);
}

#[test]
fn there_are_only_so_many_connections_of_peers_and_most_are_given_up_for_new_ones() {
    let cluster = start();
    let address = cluster.nodes[0].address();
    let mut silent: Vec<Greedy> = (0..300).filter_map(|_| Greedy::upgrade(address)).collect();
    assert_eq!(silent.len(), 300, "one that greets at once is let in");
    check_memory(&cluster, "with connections that do not greet");
    check_service(&cluster);
    assert!(silent[0].answer().is_none(), "it made room for those that came later");
    // A greeting is not longer than it has to be.
    let mut length = (30_000_u32).to_le_bytes().to_vec();
    length.resize(9, 0);
    let last = silent.last_mut().expect("one of many");
    last.flood(&length);
    assert!(last.answer().is_none(), "too long for a greeting");
    drop(silent);
    // Those that greeted, and are not used, make room.
    let mut idle = Vec::new();
    wait_until("as many connections as there may be", || match Greedy::greet(&cluster) {
        Some(greedy) => {
            idle.push(greedy);
            false
        }
        None => idle.len() > 20,
    });
    wait_until("room for another one", || Greedy::greet(&cluster).is_some());
    check_service(&cluster);
}
