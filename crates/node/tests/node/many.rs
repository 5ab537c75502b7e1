use bytes::Bytes;
use ladoga_cluster::{Origin, ReadAnswer, SentCell};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::PeerLimits;
use ladoga_node::peers::wire::{Answer, FRAME_BYTES_MAX, Request, Versions};

use crate::cluster::{Cluster, with_engine, with_peers_of};
use crate::peer::Caller;
use crate::scripted::{Script, Scripted};

/// What a connection of a peer may have read from the disk at a time.
const SESSION_READ_BYTES_MAX: usize = (32 << 20) / 3;
/// The kind of a frame of reads, and how many it has at most.
const READS: u8 = 21;
const READS_MAX: u32 = 128;
/// As many as are read at the same time before anything is known of the values.
const LINES: usize = 16;

/// A frame of reads, as `docs/formats.md` has it.
fn frame(numbers: std::ops::Range<u32>) -> Vec<u8> {
    let read = |number: u32| [&number.to_le_bytes()[..], &[0, 1, 3, 0], b"key"].concat();
    frame_of(&numbers.flat_map(read).collect::<Vec<_>>())
}

fn frame_of(body: &[u8]) -> Vec<u8> {
    let rest = [&u32::MAX.to_le_bytes()[..], &[READS], body].concat();
    [&(rest.len() as u32).to_le_bytes()[..], &crc32c::crc32c(&rest).to_le_bytes(), &rest].concat()
}

/// Asks for many keys in one batch, has the peer answer, and answers in how many frames it was asked.
fn frames_of_a_batch(cluster: &Cluster<Embedded>) -> usize {
    let mut client = cluster.connect();
    let keys = cluster.foreign_keys(LINES);
    let line = |key: &String| format!("{{\"op\":\"get\",\"key\":\"{key}\"}}\n");
    let lines = keys.iter().map(line).collect::<Vec<_>>().concat();
    let head =
        format!("POST /v0/batch?replicas=1/1 HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n", lines.len());
    client.send([head, lines].concat());
    let peer = &cluster.peers[0];
    let read = |request: &Request| match request {
        Request::Read { key, .. } => Some(key.clone()),
        _ => None,
    };
    let asked: Vec<(u32, Bytes)> = (0..LINES).map(|_| peer.asked(read)).collect();
    // Each gets its own answer, in whatever order.
    for (number, key) in asked.into_iter().rev() {
        let stamp = Stamp::new(Version { timestamp: 1, node: 0 });
        let cell = SentCell::Whole(Cell { stamp, value: Some(Value::Inline(key)) });
        peer.answer(number, &Answer::Read(ReadAnswer { cell: Some(cell), is_whole: true }));
    }
    let answer = client.answer();
    assert_eq!((answer.status, answer.text().lines().count()), (200, LINES), "{}", answer.text());
    for (key, line) in keys.into_iter().zip(answer.text().lines()) {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&line["status"], &line["value"]), (&200.into(), &key.into()), "{line}");
    }
    peer.frames_of_reads()
}

#[test]
fn a_replica_is_asked_once_for_the_reads_of_a_turn() {
    let frames = frames_of_a_batch(&with_engine(1, &PeerLimits::default()));
    // One, unless what the client sent came in pieces.
    assert!(frames <= LINES / 8, "{frames} frames");
}

#[test]
fn a_peer_that_knows_no_frames_of_reads_gets_none() {
    let versions = Versions { oldest: 7, newest: 7 };
    assert_eq!(frames_of_a_batch(&with_peers_of(versions, 1)), LINES);
}

fn numbers_of_answers(caller: &mut Caller, count: u32) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..count).map(|_| caller.answer().0).collect();
    numbers.sort_unstable();
    numbers
}

/// What is read for a frame is bounded as if its reads had come one by one.
#[test]
fn reads_that_there_is_no_room_for_wait_for_their_turn() {
    const FRAMES: u32 = 8;
    let cluster = Cluster::start(1, &PeerLimits::default(), |_| Scripted::default());
    cluster.store.insert("key", &[b'v'; 5_000]);
    let mut caller = cluster.connect_as_peer();
    let mut client = cluster.connect();
    cluster.store.tell(Script { reads_later: true, holds: true, ..Script::default() });
    let frames = (0..FRAMES).flat_map(|n| frame(n * READS_MAX..(n + 1) * READS_MAX));
    caller.send(&frames.collect::<Vec<_>>());
    for _ in 0..3 {
        assert_eq!(client.get("/v0/status").status, 200);
    }
    assert_eq!(cluster.store.reads(), SESSION_READ_BYTES_MAX / FRAME_BYTES_MAX);
    cluster.store.release();
    let all = FRAMES * READS_MAX;
    assert!(numbers_of_answers(&mut caller, all).into_iter().eq(0..all), "each once");
    // In pieces it is the same.
    for byte in frame(0..3) {
        caller.send(&[byte]);
    }
    assert_eq!(numbers_of_answers(&mut caller, 3), [0, 1, 2]);
}

#[test]
fn a_frame_that_is_no_list_of_reads_ends_its_connection_only() {
    let cluster = with_engine(1, &PeerLimits::default());
    let mut other = cluster.connect_as_peer();
    let whole = frame(0..2)[13..].to_vec();
    let many = frame(0..READS_MAX + 1);
    let no_key = [&whole[..], &1_u32.to_le_bytes(), &[0, 1, 0, 0]].concat();
    let no_origin = [&whole[..], &1_u32.to_le_bytes(), &[0, 9, 3, 0], b"key"].concat();
    let bad =
        [frame_of(&[]), many, frame_of(&whole[..whole.len() - 1]), frame_of(&no_key), frame_of(&no_origin)];
    for bad in bad {
        let mut caller = cluster.connect_as_peer();
        caller.send(&bad);
        assert_eq!(caller.answers_until_closed(), 0);
        let read = Request::Read { key: Bytes::from_static(b"key"), digest: false, origin: Origin::Client };
        other.ask(&[(1, read)]);
        assert_eq!(numbers_of_answers(&mut other, 1), [1]);
    }
}
