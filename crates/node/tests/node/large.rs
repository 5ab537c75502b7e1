//! Large values, while a replica of theirs lives and does not answer: its disk hangs.

use std::collections::BTreeSet;

use bytes::Bytes;
use ladoga_cluster::{HINTS_IN_FLIGHT_MAX, ReadAnswer, Refusal, SentCell};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::wire::{Answer, Origin, Request};

use crate::client::Client;
use crate::cluster::{Cluster, PATIENCE_MS, with_time};
use crate::peer::{Deadline, Peer};

const QUORUM_TIMEOUT_MS: u64 = 3_000;
/// More than one piece.
const BYTES: usize = 600 << 10;
const STREAM: u32 = 7;
const VERSION: Version = Version { timestamp: 1, node: 0 };

fn lacks_it() -> Answer {
    Answer::Read(ReadAnswer { cell: None, is_whole: true })
}

fn put(cluster: &Cluster<Embedded>) -> Client {
    let mut client = cluster.connect();
    let head = format!(
        "PUT /v0/entity?id=large&replicas=2/3 HTTP/1.1\r\nhost: h\r\ncontent-length: {BYTES}\r\n\r\n"
    );
    client.send([head.as_bytes(), &vec![b'v'; BYTES]].concat());
    client
}

fn upload(request: &Request) -> Option<()> {
    matches!(request, Request::Upload).then_some(())
}

/// Takes the pieces of a value, and the value.
fn take_value(peer: &Peer, origin: Origin) {
    let mut bytes = 0;
    loop {
        let (number, (answer, is_over)) = peer.asked(|request| match request {
            Request::Push { stream: STREAM, bytes: piece } => {
                bytes += piece.len();
                Some((Answer::Done, false))
            }
            // For a newer version, before it is stored.
            Request::Read { .. } => Some((lacks_it(), false)),
            Request::Finish { stream: STREAM, origin: found, .. } => {
                assert_eq!(*found, origin);
                Some((Answer::Done, true))
            }
            _ => None,
        });
        peer.answer(number, &answer);
        if is_over {
            return assert_eq!(bytes, BYTES);
        }
    }
}

/// It was waited for by every large `PUT`, for as long as its disk hung.
#[test]
fn a_replica_that_does_not_answer_holds_up_a_large_put_no_longer_than_a_request() {
    for opens in [false, true] {
        let cluster = with_time(2, QUORUM_TIMEOUT_MS);
        let mut client = put(&cluster);
        let [works, hangs] = &cluster.peers[..] else { panic!("two peers") };
        let (number, ()) = hangs.asked(upload);
        if opens {
            hangs.answer(number, &Answer::Opened(STREAM));
        }
        let (number, ()) = works.asked(upload);
        works.answer(number, &Answer::Opened(STREAM));
        take_value(works, Origin::Client);
        let answer = client.answer();
        assert_eq!(answer.status, 201, "two of three have it: {}", answer.text());
    }
}

/// Each large `PUT` waited for it, as long as for any request, although it was known that it cannot be reached.
#[test]
fn a_peer_that_is_frozen_holds_up_no_large_put_that_needs_it_not() {
    let cluster = with_time(2, PATIENCE_MS);
    let [works, frozen] = &cluster.peers[..] else { panic!("two peers") };
    frozen.freeze();
    cluster.wait_until(|report| {
        report["nodes"].as_array().expect("nodes").iter().any(|node| node["state"] == "unreachable")
    });
    let mut client = put(&cluster);
    let (number, ()) = works.asked(upload);
    works.answer(number, &Answer::Opened(STREAM));
    take_value(works, Origin::Client);
    assert_eq!(client.answer().status, 201);
    cluster.wait_until(|report| {
        report["nodes"].as_array().expect("nodes").iter().any(|node| node["hints_waiting"] == 1)
    });
}

/// The next peer that is asked to stream the value.
fn asked_to_stream(cluster: &Cluster<Embedded>) -> (usize, u32) {
    let began = Deadline::begins();
    loop {
        for (place, peer) in cluster.peers.iter().enumerate() {
            let opens = |request: &Request| match request {
                Request::OpenValue { version: VERSION, .. } => Some(()),
                _ => None,
            };
            if let Some((number, ())) = peer.asked_soon(opens) {
                return (place, number);
            }
        }
        assert!(!began.is_over(), "nobody is asked for the value");
    }
}

/// The replica that showed it was the only one that was asked for its bytes, whatever became of that.
#[test]
fn a_large_value_is_read_from_another_replica_if_one_does_not_answer_or_fails() {
    for fails in [false, true] {
        let cluster = with_time(2, QUORUM_TIMEOUT_MS);
        let mut client = get_of_both(&cluster);
        let (hangs, number) = asked_to_stream(&cluster);
        if fails {
            cluster.peers[hangs].answer(number, &Answer::Refused(Refusal::Unreadable));
        }
        let (works, number) = asked_to_stream(&cluster);
        assert_ne!(works, hangs);
        let works = &cluster.peers[works];
        works.answer(number, &Answer::Opened(STREAM));
        let value = vec![b'v'; BYTES];
        for piece in value.chunks(BYTES / 2) {
            let (number, ()) = works.asked(|request| matches!(request, Request::Next { .. }).then_some(()));
            works.answer(number, &Answer::Piece(Bytes::copy_from_slice(piece)));
        }
        let answer = client.answer();
        assert!(answer.status == 200 && answer.body == value, "{}", answer.status);
    }
}

/// The value, as both peers show it to a client that reads it.
fn get_of_both(cluster: &Cluster<Embedded>) -> Client {
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send(format!("GET /v0/entity?id={key}&replicas=2/2 HTTP/1.1\r\nhost: h\r\n\r\n"));
    for peer in &cluster.peers {
        let (number, ()) = peer.asked(|request| matches!(request, Request::Read { .. }).then_some(()));
        let cell = Cell { stamp: Stamp::new(VERSION), value: Some(Value::Large(BYTES as u64)) };
        let cell = Some(SentCell::Whole(cell));
        peer.answer(number, &Answer::Read(ReadAnswer { cell, is_whole: true }));
    }
    client
}

/// Answers the request for the next piece, which is to pass over so many bytes.
fn answer_next(peer: &Peer, passed: usize, answer: &Answer) {
    let (number, ()) = peer.asked(|request| match request {
        Request::Next { stream: STREAM, skip } => (*skip == passed as u64).then_some(()),
        _ => None,
    });
    peer.answer(number, answer);
}

/// Gives the rest of the value, behind so many bytes, and its end.
fn give_rest(peer: &Peer, value: &Bytes, passed: usize) {
    let mut at = passed;
    while at < BYTES {
        let next = BYTES.min(at + BYTES / 3);
        answer_next(peer, if at == passed { passed } else { 0 }, &Answer::Piece(value.slice(at..next)));
        at = next;
    }
    answer_next(peer, 0, &Answer::End);
}

/// It was answered 500, or its answer broke off, although another replica had it. One that ended too early was believed.
#[test]
fn a_large_value_goes_on_at_another_replica_if_one_fails() {
    let fails = Answer::Refused(Refusal::Draining);
    for (sent, end) in [(0, fails.clone()), (BYTES / 3, fails), (BYTES / 3, Answer::End)] {
        let cluster = with_time(2, QUORUM_TIMEOUT_MS);
        let mut client = get_of_both(&cluster);
        let value: Bytes = (0..BYTES).map(|place| b'a' + (place % 23) as u8).collect();
        let (fails, number) = asked_to_stream(&cluster);
        cluster.peers[fails].answer(number, &Answer::Opened(STREAM));
        if sent > 0 {
            answer_next(&cluster.peers[fails], 0, &Answer::Piece(value.slice(..sent)));
        }
        answer_next(&cluster.peers[fails], 0, &end);
        let (works, number) = asked_to_stream(&cluster);
        assert_ne!(works, fails);
        let works = &cluster.peers[works];
        works.answer(number, &Answer::Opened(STREAM));
        give_rest(works, &value, sent);
        let answer = client.answer();
        assert!(answer.status == 200 && answer.body == value, "{} after {sent}", answer.status);
    }
}

/// It was 500 whatever they said, as if a block were corrupt.
#[test]
fn a_large_value_that_no_replica_gives_is_unreadable_only_if_they_say_so() {
    for (refusal, status) in
        [(Refusal::Unreadable, 500), (Refusal::Draining, 504), (Refusal::OverCapacity, 503)]
    {
        let cluster = with_time(2, QUORUM_TIMEOUT_MS);
        let mut client = get_of_both(&cluster);
        for _ in &cluster.peers {
            let (fails, number) = asked_to_stream(&cluster);
            cluster.peers[fails].answer(number, &Answer::Opened(STREAM));
            answer_next(&cluster.peers[fails], 0, &Answer::Refused(refusal));
        }
        let answer = client.answer();
        assert_eq!(answer.status, status, "{}", answer.text());
    }
}

/// Its copy to a replica that lacked it was taken from the one that showed it only, and the read that needed the copy got 504.
#[test]
fn a_large_value_is_copied_from_another_replica_if_one_fails() {
    let cluster = with_time(2, QUORUM_TIMEOUT_MS);
    let [fails, works] = &cluster.peers[..] else { panic!("two peers") };
    let mut client = cluster.connect();
    client.send("GET /v0/entity?id=large&replicas=2/3 HTTP/1.1\r\nhost: h\r\n\r\n");
    let stamp = Stamp::new(VERSION);
    for digest in [true, false] {
        let (number, ()) = fails.asked(|request| match request {
            Request::Read { digest: asked, .. } => (*asked == digest).then_some(()),
            _ => None,
        });
        let whole = Cell { stamp, value: Some(Value::Large(BYTES as u64)) };
        let cell = Some(if digest { SentCell::Digest(stamp) } else { SentCell::Whole(whole) });
        fails.answer(number, &Answer::Read(ReadAnswer { cell, is_whole: true }));
    }
    let opens = |request: &Request| matches!(request, Request::OpenValue { .. }).then_some(());
    let (number, ()) = fails.asked(opens);
    fails.answer(number, &Answer::Refused(Refusal::Draining));
    let (number, ()) = works.asked(opens);
    works.answer(number, &Answer::Opened(STREAM));
    give_rest(works, &vec![b'v'; BYTES].into(), 0);
    // This node has it by now, and the client gets it from whoever is first.
    let (number, ()) = fails.asked(opens);
    fails.answer(number, &Answer::Refused(Refusal::Draining));
    let answer = client.answer();
    assert!(answer.status == 200 && answer.body.len() == BYTES, "{}", answer.status);
}

/// A read of all replicas was to bring it: as long as one of them did not answer, no hint behind it was delivered, or only some.
#[test]
fn a_hint_of_a_large_value_needs_its_node_and_nobody_else() {
    let cluster = with_time(2, QUORUM_TIMEOUT_MS);
    let mut client = put(&cluster);
    let [works, missed] = &cluster.peers[..] else { panic!("two peers") };
    let (number, ()) = missed.asked(upload);
    missed.answer(number, &Answer::Refused(Refusal::NoRoom));
    let (number, ()) = works.asked(upload);
    works.answer(number, &Answer::Opened(STREAM));
    take_value(works, Origin::Client);
    assert_eq!(client.answer().status, 201);
    // From here on, `works` answers nothing.
    let (number, ()) = missed.asked(|request| match request {
        Request::Read { origin: Origin::Repair, .. } => Some(()),
        _ => None,
    });
    missed.answer(number, &lacks_it());
    let (number, is_upload) = missed.asked(|request| match request {
        Request::Upload => Some(true),
        Request::Read { .. } => Some(false),
        _ => None,
    });
    assert!(is_upload, "it is tried again");
    missed.answer(number, &Answer::Opened(STREAM));
    take_value(missed, Origin::Repair);
    cluster.wait_until(|report| {
        report["nodes"].as_array().expect("nodes").iter().all(|node| node["hints_waiting"] != 1)
    });
}

/// The peers' part while clients write: one takes everything, and streams it again or not; the other one takes hints only, of small
/// values, and refuses everything else. Answers what hint it got, or that its hint of the large value had to wait once more.
fn serve((works, streams): (&Peer, bool), (missed, refusal): (&Peer, Refusal)) -> Option<Result<Bytes, ()>> {
    let said = works.asked_soon(|request| match request {
        Request::Upload => Some(Answer::Opened(STREAM)),
        Request::OpenValue { .. } if streams => Some(Answer::Opened(STREAM)),
        Request::OpenValue { .. } => Some(Answer::Refused(Refusal::Unreadable)),
        Request::Read { .. } => Some(lacks_it()),
        _ => Some(Answer::Done),
    });
    if let Some((number, answer)) = said {
        works.answer(number, &answer);
    }
    let (number, (answer, hint)) = missed.asked_soon(|request| match request {
        Request::Write { origin: Origin::Hint, key, .. } => Some((Answer::Done, Some(Ok(key.clone())))),
        Request::Read { origin: Origin::Repair, .. } => Some((lacks_it(), Some(Err(())))),
        _ => Some((Answer::Refused(refusal), None)),
    })?;
    missed.answer(number, &answer);
    hint
}

/// All that were on their way were sent again five times a second, and those behind them not at all.
#[test]
fn a_hint_of_a_large_value_that_nobody_can_give_holds_up_no_other() {
    holds_up_no_other(false, Refusal::NoRoom);
}

/// The same: the peer was taken for one that takes no hints.
#[test]
fn a_hint_of_a_large_value_for_which_the_peer_has_no_place_holds_up_no_other() {
    holds_up_no_other(true, Refusal::OverCapacity);
}

fn holds_up_no_other(streams: bool, refusal: Refusal) {
    const SMALL: usize = 3 * HINTS_IN_FLIGHT_MAX / 2;
    let cluster = with_time(2, QUORUM_TIMEOUT_MS);
    let keys = cluster.foreign_keys(1 + SMALL);
    let [works, missed] = &cluster.peers[..] else { panic!("two peers") };
    let mut client = cluster.connect();
    let value = vec![b'v'; BYTES];
    for (key, value) in keys.iter().zip([&value[..]].into_iter().chain([&b"v"[..]; SMALL])) {
        let query = format!("id={key}&replicas=1/2");
        let length = value.len();
        let head = format!("PUT /v0/entity?{query} HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
        client.send([head.as_bytes(), value].concat());
    }
    let (mut arrived, mut waits) = (BTreeSet::new(), 0);
    while arrived.len() < SMALL {
        match serve((works, streams), (missed, refusal)) {
            Some(Ok(key)) => drop(arrived.insert(key)),
            Some(Err(())) => waits += 1,
            None => {}
        }
        // Far more than a busy machine needs: what is held up does not arrive at all.
        assert!(waits < 200, "{} of {SMALL} have arrived", arrived.len());
    }
    cluster.wait_until(|report| {
        let nodes = report["nodes"].as_array().expect("nodes");
        nodes.iter().any(|node| node["hints_waiting"] == 1)
    });
}

/// It was answered 504, as if a connection had broken.
#[test]
fn a_large_value_that_is_replaced_while_it_is_read_is_read_again() {
    let cluster = with_time(2, QUORUM_TIMEOUT_MS);
    let key = cluster.foreign_key();
    let mut client = cluster.connect();
    client.send(format!("GET /v0/entity?id={key}&replicas=2/2 HTTP/1.1\r\nhost: h\r\n\r\n"));
    let [holder, lacks] = &cluster.peers[..] else { panic!("two peers") };
    let answer_read = |peer: &Peer, cell: Option<Cell<Bytes, u64>>| {
        let (number, ()) = peer.asked(|request| matches!(request, Request::Read { .. }).then_some(()));
        let cell = cell.map(SentCell::Whole);
        peer.answer(number, &Answer::Read(ReadAnswer { cell, is_whole: true }));
    };
    answer_read(holder, Some(Cell { stamp: Stamp::new(VERSION), value: Some(Value::Large(BYTES as u64)) }));
    answer_read(lacks, None);
    let (number, ()) = holder.asked(|request| matches!(request, Request::OpenValue { .. }).then_some(()));
    holder.answer(number, &Answer::Gone);
    let newer = Stamp::new(Version { timestamp: 2, node: 0 });
    answer_read(
        holder,
        Some(Cell { stamp: newer, value: Some(Value::Inline(Bytes::from_static(b"newer"))) }),
    );
    let (number, ()) = lacks.asked(|request| match request {
        Request::Write { stamp, origin: Origin::Repair, .. } => (*stamp == newer).then_some(()),
        _ => None,
    });
    lacks.answer(number, &Answer::Done);
    let answer = client.answer();
    assert_eq!((answer.status, answer.text()), (200, "newer"));
}
