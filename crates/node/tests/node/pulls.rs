//! What a node takes over from the others by anti-entropy, of which some cannot give it.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use ladoga_cluster::{KeyVersion, ReadAnswer, Refusal, SentCell};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_node::embedded::Embedded;
use ladoga_node::peers::wire::{Answer, Origin, Request};
use ladoga_node::store::{Store, StoreError};

use crate::cluster::{Cluster, PATIENCE_MS, scripted_with_time, with_a_new_disk, with_time};
use crate::peer::{Deadline, Peer};
use crate::scripted::Script;

pub(crate) const BYTES: usize = 600 << 10;
pub(crate) const PIECES: usize = 3;
const STREAM: u32 = 7;
pub(crate) const STAMP: Stamp = Stamp::new(Version { timestamp: 1, node: 0 });

/// A node with two peers, which is to take over what the first of them has; the second one compares nothing.
fn cluster_under_repair() -> Cluster<Embedded> {
    let cluster = with_time(2, PATIENCE_MS);
    begin_repair(&cluster);
    cluster
}

pub(crate) fn begin_repair<S: Store>(cluster: &Cluster<S>) {
    cluster.peers[0].is_mute(true);
    let mut client = cluster.connect();
    client.send("POST /v0/repair HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n\r\n");
    assert!(client.answer().status < 300);
}

/// What a peer answers whose cells are large values with so many keys, if it is asked what it has.
fn shown(request: &Request, keys: usize) -> Option<Answer> {
    shown_with(request, keys, Some(&Value::Large(BYTES as u64)))
}

/// The same if each of its keys has this value, or is deleted.
pub(crate) fn shown_with(
    request: &Request,
    keys: usize,
    value: Option<&Value<Bytes, u64>>,
) -> Option<Answer> {
    const GROUP: usize = 256;
    Some(match request {
        Request::Groups(slice) => {
            Answer::Groups { dropped_before: slice.dropped_before, hashes: vec![1; GROUP] }
        }
        Request::Leaves { groups, .. } => Answer::Leaves(vec![1; groups.len() * GROUP]),
        Request::List { .. } => {
            let cell = Cell { stamp: STAMP, value: value.cloned() };
            let entry = |key| KeyVersion { key: Bytes::from(format!("key{key}")), mark: cell.mark() };
            Answer::List { entries: (0..keys).map(entry).collect(), next: None }
        }
        Request::Read { origin: Origin::Exchange, .. } => read(value.cloned()),
        _ => return None,
    })
}

pub(crate) fn read(value: Option<Value<Bytes, u64>>) -> Answer {
    let cell = Some(SentCell::Whole(Cell { stamp: STAMP, value }));
    Answer::Read(ReadAnswer { cell, is_whole: true })
}

pub(crate) fn opens(request: &Request) -> Option<()> {
    matches!(request, Request::OpenValue { .. }).then_some(())
}

/// The next request that matches to a peer that shows one key.
fn asked<T>(peer: &Peer, mut is_it: impl FnMut(&Request) -> Option<T>) -> (u32, T) {
    loop {
        let (number, said) =
            peer.asked(|request| is_it(request).map(Ok).or_else(|| shown(request, 1).map(Err)));
        match said {
            Ok(found) => return (number, found),
            Err(answer) => peer.answer(number, &answer),
        }
    }
}

/// Gives the value to who has asked for it by this request.
fn give(peer: &Peer, opened: u32) {
    peer.answer(opened, &Answer::Opened(STREAM));
    for piece in (0..PIECES).map(Some).chain([None]) {
        let (number, ()) =
            peer.asked(|request| matches!(request, Request::Next { stream: STREAM, .. }).then_some(()));
        peer.answer(number, &piece.map_or(Answer::End, |_| a_piece()));
    }
}

pub(crate) fn a_piece() -> Answer {
    Answer::Piece(vec![b'v'; BYTES / PIECES].into())
}

/// Waits until all was taken over from the first peer.
pub(crate) fn is_repaired<S: Store>(cluster: &Cluster<S>) {
    cluster.wait_until(|report| report["repair"]["completed"] == 1);
    cluster.wait_until(|report| {
        let nodes = cluster.list.iter().filter(|(id, _)| *id != cluster.own);
        let names: Vec<&str> = nodes.map(|(_, node)| &*node.name).collect();
        let error = report["repair"]["error"].as_str().expect("the second one refuses");
        assert!(error.contains(names[1]) && !error.contains(names[0]), "{error}");
        true
    });
}

/// As many as 32 were opened at once: more than a peer with little memory has places for, which its clients need as well.
#[test]
fn four_large_values_are_taken_over_at_a_time() {
    const PLACES: usize = 4;
    const VALUES: usize = 12;
    let cluster = cluster_under_repair();
    let source = &cluster.peers[0];
    let (mut opened, mut given) = (0, 0);
    let mut waits: VecDeque<(u32, u32)> = VecDeque::new();
    let mut pieces = [PIECES; VALUES];
    let began = Deadline::begins();
    while given < VALUES {
        assert!(!began.is_over(), "{given} of {VALUES}");
        let said = source.asked_soon(|request| match request {
            Request::Next { stream, .. } => Some(Err(*stream)),
            Request::OpenValue { .. } => {
                opened += 1;
                assert!(opened - given <= PLACES, "there is no place for one more");
                Some(Ok(Answer::Opened(opened as u32 - 1)))
            }
            request => shown(request, VALUES).map(Ok),
        });
        match said {
            Some((number, Ok(answer))) => source.answer(number, &answer),
            Some((number, Err(stream))) => waits.push_back((number, stream)),
            // All are there that come as long as none is given.
            None => {
                let Some((number, stream)) = waits.pop_front() else { continue };
                let left = &mut pieces[stream as usize];
                if *left > 0 {
                    *left -= 1;
                    source.answer(number, &a_piece());
                } else {
                    given += 1;
                    source.answer(number, &Answer::End);
                }
            }
        }
    }
    is_repaired(&cluster);
}

/// All that was pulled from it was given up, and begun anew.
#[test]
fn a_peer_without_a_place_for_a_large_value_is_asked_again() {
    let cluster = cluster_under_repair();
    let [source, other] = &cluster.peers[..] else { panic!("two peers") };
    for displaced in [false, true] {
        let (mut number, ()) = asked(source, opens);
        let mut answer = Answer::Refused(Refusal::OverCapacity);
        if displaced {
            source.answer(number, &Answer::Opened(STREAM));
            (number, ()) = source.asked(|request| matches!(request, Request::Next { .. }).then_some(()));
            answer = Answer::Gone;
        }
        source.answer(number, &answer);
        let (number, ()) = other.asked(opens);
        other.answer(number, &Answer::Gone);
    }
    let (number, ()) = asked(source, opens);
    give(source, number);
    is_repaired(&cluster);
}

/// Of whatever it was, one such answer ended the pull, although it would have come a moment later.
#[test]
fn a_peer_that_is_over_capacity_for_a_moment_is_asked_again() {
    const KEYS: usize = 3;
    let cluster = cluster_under_repair();
    let source = &cluster.peers[0];
    let value = Value::Inline(Bytes::from_static(b"value"));
    let is_first: [fn(&Request) -> bool; 4] = [
        |request| matches!(request, Request::Groups(_)),
        |request| matches!(request, Request::Leaves { .. }),
        |request| matches!(request, Request::List { .. }),
        |request| matches!(request, Request::Read { origin: Origin::Exchange, .. }),
    ];
    for is_it in is_first {
        loop {
            let (number, (refused, answer)) = source.asked(|request| {
                shown_with(request, KEYS, Some(&value)).map(|answer| (is_it(request), answer))
            });
            let refusal = Answer::Refused(Refusal::OverCapacity);
            source.answer(number, if refused { &refusal } else { &answer });
            if refused {
                break;
            }
        }
    }
    let began = Deadline::begins();
    while cluster.report()["repair"]["completed"] != 1 {
        assert!(!began.is_over(), "it does not go on");
        answer_soon(source, |request| shown_with(request, KEYS, Some(&value)));
    }
    is_repaired(&cluster);
}

/// A value that one node could not read kept a node from becoming complete for ever, although another one had it.
#[test]
fn a_large_value_that_a_peer_cannot_read_is_taken_over_from_another_one() {
    let cluster = cluster_under_repair();
    let [source, other] = &cluster.peers[..] else { panic!("two peers") };
    let (number, ()) = asked(source, opens);
    source.answer(number, &Answer::Refused(Refusal::Unreadable));
    let (number, ()) = other.asked(opens);
    give(other, number);
    is_repaired(&cluster);
}

/// It counted as taken over without being here, where it would have hidden what is older.
#[test]
fn a_large_value_that_has_expired_at_the_peer_is_taken_over_as_a_deletion() {
    let cluster = cluster_under_repair();
    let source = &cluster.peers[0];
    let (number, ()) = asked(source, opens);
    source.answer(number, &Answer::Gone);
    let (number, key) = source.asked(|request| match request {
        Request::Read { key, origin: Origin::Exchange, .. } => Some(key.clone()),
        _ => None,
    });
    source.answer(number, &read(None));
    is_repaired(&cluster);
    let mut caller = cluster.connect_as_peer();
    caller.ask(&[(1, Request::Read { key, digest: false, origin: Origin::Exchange })]);
    let (_, answer) = caller.answer();
    let Answer::Read(ReadAnswer { cell: Some(SentCell::Whole(cell)), .. }) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!((cell.stamp, cell.value), (STAMP, None));
}

/// The first one was asked again and again, and the others for nothing.
#[test]
fn a_peer_that_refuses_to_be_compared_keeps_no_other_from_it() {
    let cluster = with_a_new_disk(2);
    let began = Deadline::begins();
    while cluster.peers.iter().any(|peer| peer.comparisons() == 0) {
        assert!(!began.is_over(), "not all were asked");
        std::thread::yield_now();
    }
}

/// The first of them for which a queue of the node's own store had no room ended the pull: `over capacity`, as if the peer were.
#[test]
fn what_is_taken_over_waits_for_room_in_the_queues_of_the_store() {
    const KEYS: usize = 40;
    let full = || Some(StoreError::OverCapacity { bound: "it is full" });
    for value in [Some(Value::Inline(Bytes::from_static(b"value"))), None] {
        let cluster = scripted_with_time(2, PATIENCE_MS);
        let (store, source) = (&cluster.store, &cluster.peers[0]);
        let reads = Script { get: full(), ..Script::default() };
        let writes = Script { admit: full(), ..Script::default() };
        store.tell(reads);
        begin_repair(&cluster);
        let began = Deadline::begins();
        for next in [writes, Script::default()] {
            let refusals = store.refusals().len();
            while store.refusals().len() == refusals {
                assert!(!began.is_over(), "nothing is refused");
                answer_soon(source, |request| shown_with(request, KEYS, value.as_ref()));
            }
            store.tell(next);
        }
        while cluster.report()["repair"]["completed"] != 1 {
            assert!(!began.is_over(), "it does not go on");
            answer_soon(source, |request| shown_with(request, KEYS, value.as_ref()));
        }
        is_repaired(&cluster);
    }
}

/// One moment in which a queue of the node's own store was full ended the pull, as if the node could not store the value.
#[test]
fn a_large_value_for_which_the_store_has_no_room_is_taken_over_later() {
    let full = || StoreError::OverCapacity { bound: "it is full" };
    let cluster = scripted_with_time(2, PATIENCE_MS);
    let (store, source) = (&cluster.store, &cluster.peers[0]);
    store.tell(Script { upload: Some((0, full())), ..Script::default() });
    begin_repair(&cluster);
    let (number, ()) = asked(source, opens);
    source.answer(number, &Answer::Opened(STREAM));
    let (number, ()) = asked(source, opens);
    store.tell(Script { upload: Some((1, full())), ..Script::default() });
    source.answer(number, &Answer::Opened(STREAM));
    let (number, ()) = source.asked(|request| matches!(request, Request::Next { .. }).then_some(()));
    source.answer(number, &a_piece());
    let (number, ()) = asked(source, opens);
    store.tell(Script::default());
    give(source, number);
    is_repaired(&cluster);
    assert_eq!(store.value("key0").map(|value| value.len()), Some(BYTES));
}

/// Each of those that waited for room tried again and again, and each attempt counted as a read that the store refused.
#[test]
fn one_look_at_a_time_is_tried_again_while_the_queue_of_reads_is_full() {
    // All that are looked up at a time.
    const LOOKS: usize = 32;
    let cluster = scripted_with_time(2, PATIENCE_MS);
    let full = StoreError::OverCapacity { bound: "it is full" };
    cluster.store.tell(Script { get: Some(full), ..Script::default() });
    begin_repair(&cluster);
    let began = Deadline::begins();
    while cluster.store.refusals().len() < 2 * LOOKS {
        assert!(!began.is_over(), "nothing is refused");
        answer_soon(&cluster.peers[0], |request| shown_with(request, 2 * LOOKS, None));
    }
    let refusals = cluster.store.refusals();
    let others: Vec<_> = refusals.iter().filter(|key| **key != refusals[0]).collect();
    assert_eq!(others.len(), LOOKS - 1, "each of them once");
    assert_eq!(others.into_iter().collect::<HashSet<_>>().len(), LOOKS - 1);
}

/// Answers the next request that matches, if one comes soon; whether one did.
pub(crate) fn answer_soon(peer: &Peer, answer: impl FnMut(&Request) -> Option<Answer>) -> bool {
    let asked = peer.asked_soon(answer);
    asked.map(|(number, answer)| peer.answer(number, &answer)).is_some()
}
