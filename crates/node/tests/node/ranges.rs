//! Large values in a range over all nodes, which are read once their turn comes.

use bytes::Bytes;
use ladoga_cluster::{ReadAnswer, Refusal, SentCell};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::wire::{Answer, Request, put_record};

use crate::client::Client;
use crate::cluster::{Cluster, with_time};
use crate::peer::Peer;

const QUORUM_TIMEOUT_MS: u64 = 5_000;
/// More than one piece.
const BYTES: usize = 600 << 10;
const VERSION: Version = Version { timestamp: 1, node: 0 };
/// The streams of a peer.
const CELLS: u32 = 1;
const VALUE: u32 = 2;

fn begin(cluster: &Cluster<Embedded>) -> Client {
    let mut client = cluster.connect();
    let head = "GET /v0/entities?start=k&scope=cluster HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    client.send(head);
    for peer in &cluster.peers {
        answer(peer, |request| matches!(request, Request::OpenCells { .. }), &Answer::Opened(CELLS));
    }
    client
}

pub(crate) fn answer(peer: &Peer, is_it: impl Fn(&Request) -> bool, answer: &Answer) {
    let (number, ()) = peer.asked(|request| is_it(request).then_some(()));
    peer.answer(number, answer);
}

pub(crate) fn is_next_of(wanted: u32, passes: usize) -> impl Fn(&Request) -> bool {
    move |request| matches!(request, Request::Next { stream, skip } if *stream == wanted && *skip == passes as u64)
}

fn answer_value(peer: &Peer, said: &Answer) {
    answer(peer, |request| matches!(request, Request::OpenValue { version: VERSION, .. }), said);
}

fn large_cell() -> Answer {
    let mut piece = Vec::new();
    let value = Some(Value::Large(BYTES as u64));
    put_record(&mut piece, b"key", Cell { stamp: Stamp::new(VERSION), value });
    Answer::Piece(piece.into())
}

fn has(body: &[u8], wanted: &[u8]) -> bool {
    body.windows(wanted.len()).any(|bytes| bytes == wanted)
}

/// The range broke off.
#[test]
fn a_large_value_that_is_replaced_before_its_turn_is_there_as_it_is_by_then() {
    for newer in [Some("newer"), None] {
        let cluster = with_time(2, QUORUM_TIMEOUT_MS);
        let mut client = begin(&cluster);
        let [holder, other] = &cluster.peers[..] else { panic!("two peers") };
        answer(holder, is_next_of(CELLS, 0), &large_cell());
        answer(other, is_next_of(CELLS, 0), &Answer::End);
        answer_value(holder, &Answer::Gone);
        let stamp = Stamp::new(Version { timestamp: 2, node: 0 });
        let cell = Cell { stamp, value: newer.map(|value| Value::Inline(Bytes::from(value))) };
        let cell = Some(SentCell::Whole(cell));
        let said = Answer::Read(ReadAnswer { cell, is_whole: true });
        answer(holder, |request| matches!(request, Request::Read { .. }), &said);
        answer(holder, is_next_of(CELLS, 0), &Answer::End);
        let body = client.answer().body;
        assert_eq!((has(&body, b"key"), has(&body, b"newer")), (newer.is_some(), newer.is_some()));
    }
}

/// The range broke off: whoever has dropped a deletion has nothing of its key.
#[test]
fn a_large_value_of_which_a_whole_node_has_nothing_by_its_turn_was_deleted() {
    for is_whole in [true, false] {
        let cluster = with_time(2, QUORUM_TIMEOUT_MS);
        let mut client = begin(&cluster);
        let [holder, other] = &cluster.peers[..] else { panic!("two peers") };
        answer(holder, is_next_of(CELLS, 0), &large_cell());
        answer(other, is_next_of(CELLS, 0), &Answer::End);
        answer_value(holder, &Answer::Gone);
        let said = Answer::Read(ReadAnswer { cell: None, is_whole });
        answer(holder, |request| matches!(request, Request::Read { .. }), &said);
        if !is_whole {
            let (rest, _) = client.rest();
            let rest = String::from_utf8(rest).expect("text");
            assert!(rest.contains("is not there any more") || !rest.ends_with("0\r\n\r\n"), "{rest}");
            continue;
        }
        answer(holder, is_next_of(CELLS, 0), &Answer::End);
        let answer = client.answer();
        assert_eq!((answer.status, has(&answer.body, b"key")), (200, false));
    }
}

/// The same of a value of the node that is asked.
#[test]
fn a_large_value_of_the_node_that_is_replaced_before_its_turn_breaks_no_range() {
    let cluster = with_time(2, QUORUM_TIMEOUT_MS);
    let key = cluster.own_key();
    let put = |byte: u8| {
        let mut client = cluster.connect();
        let head = format!(
            "PUT /v0/entity?id={key}&replicas=1/1 HTTP/1.1\r\nhost: h\r\ncontent-length: {BYTES}\r\n\r\n"
        );
        client.send([head.as_bytes(), &vec![byte; BYTES]].concat());
        assert_eq!(client.answer().status, 201);
    };
    put(b'o');
    let mut client = begin(&cluster);
    let asked = |peer: &Peer| peer.asked(|request| is_next_of(CELLS, 0)(request).then_some(())).0;
    let numbers: Vec<u32> = cluster.peers.iter().map(asked).collect();
    put(b'n');
    cluster.peers.iter().zip(numbers).for_each(|(peer, number)| peer.answer(number, &Answer::End));
    let body = client.answer().body;
    let is_whole = [b'o', b'n'].iter().any(|&byte| has(&body, &vec![byte; BYTES]));
    assert!(is_whole, "{} bytes", body.len());
}

/// The range broke off although others had the value.
#[test]
fn a_large_value_goes_on_at_another_node_that_has_it_if_one_fails() {
    const SENT: usize = BYTES / 3;
    let cluster = with_time(2, QUORUM_TIMEOUT_MS);
    let mut client = begin(&cluster);
    let [fails, works] = &cluster.peers[..] else { panic!("two peers") };
    for peer in [fails, works] {
        answer(peer, is_next_of(CELLS, 0), &large_cell());
    }
    let value: Bytes = (0..BYTES).map(|place| b'a' + (place % 23) as u8).collect();
    answer_value(fails, &Answer::Opened(VALUE));
    answer(fails, is_next_of(VALUE, 0), &Answer::Piece(value.slice(..SENT)));
    answer(fails, is_next_of(VALUE, 0), &Answer::Refused(Refusal::Unreadable));
    answer_value(works, &Answer::Opened(VALUE));
    answer(works, is_next_of(VALUE, SENT), &Answer::Piece(value.slice(SENT..2 * SENT)));
    answer(works, is_next_of(VALUE, 0), &Answer::Piece(value.slice(2 * SENT..)));
    answer(works, is_next_of(VALUE, 0), &Answer::End);
    for peer in [fails, works] {
        answer(peer, is_next_of(CELLS, 0), &Answer::End);
    }
    assert!(has(&client.answer().body, &value));
}

/// It was answered 500, as if a block were corrupt, and named the node twice.
#[test]
fn a_range_that_loses_a_node_that_it_needs_before_anything_is_sent_says_which() {
    let cluster = with_time(2, QUORUM_TIMEOUT_MS);
    let mut client = cluster.connect();
    client.send("GET /v0/entities?start=k&scope=cluster&replicas=1/1 HTTP/1.1\r\nhost: h\r\n\r\n");
    let [fails, works] = &cluster.peers[..] else { panic!("two peers") };
    for peer in [fails, works] {
        answer(peer, |request| matches!(request, Request::OpenCells { .. }), &Answer::Opened(CELLS));
    }
    answer(fails, is_next_of(CELLS, 0), &Answer::Refused(Refusal::Draining));
    answer(works, is_next_of(CELLS, 0), &Answer::End);
    let answer = client.answer();
    let text = answer.text();
    assert!(answer.status == 504 && text.matches("http://").count() == 1, "{}: {text}", answer.status);
}
