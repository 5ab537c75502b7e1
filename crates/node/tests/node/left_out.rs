//! What anti-entropy cannot take over now, which keeps nothing else from it.

use bytes::Bytes;
use ladoga_cluster::{ReadAnswer, Refusal};
use ladoga_model::{HybridClock, Stamp, Value, Version};
use ladoga_node::peers::wire::{Answer, Base, Request};
use ladoga_node::store::{Store, StoreError};

use crate::cluster::{Cluster, PATIENCE_MS, scripted_with_time, with_time};
use crate::peer::{Caller, Deadline};
use crate::pulls::{BYTES, PIECES, a_piece, answer_soon, begin_repair, is_repaired, opens, read, shown_with};
use crate::scripted::Script;

/// The first of them ended the pull: what was behind it never came, and neither the log nor the answer had its key.
#[test]
fn what_cannot_be_read_is_named_and_all_else_is_taken_over() {
    const KEYS: usize = 100;
    for value in [Value::Inline(Bytes::from_static(b"value")), Value::Large(BYTES as u64)] {
        let cluster = scripted_with_time(2, PATIENCE_MS);
        let [source, other] = &cluster.peers[..] else { panic!("two peers") };
        begin_repair(&cluster);
        let (began, mut left) = (Deadline::begins(), Vec::new());
        while cluster.report()["repair"]["completed"] != 1 {
            assert!(!began.is_over(), "it does not go on");
            answer_soon(other, |request| opens(request).map(|()| Answer::Gone));
            let mut answer = |request: &Request| match (request, &value) {
                (Request::Read { key, .. }, Value::Inline(_)) | (Request::OpenValue { key, .. }, _)
                    if key == "key0" =>
                {
                    Some(Answer::Refused(Refusal::Unreadable))
                }
                (request, value) => given(request, KEYS, value, &mut left),
            };
            while answer_soon(source, &mut answer) {}
        }
        let report = cluster.report();
        let error = report["repair"]["error"].as_str().expect("one is missing");
        assert!(error.contains("cells that are still missing: 1 (the first, 'key0': http://"), "{error}");
        let has = |n: &usize| cluster.store.value(&format!("key{n}")).is_some();
        assert_eq!((0..KEYS).filter(has).collect::<Vec<_>>(), (1..KEYS).collect::<Vec<_>>());
    }
}

/// The pull ended, and said that this node is over capacity.
#[test]
fn what_a_conditional_write_keeps_out_is_taken_over_at_its_end_or_named() {
    const KEYS: usize = 40;
    for ends in [true, false] {
        let cluster = with_time(2, if ends { PATIENCE_MS } else { 300 });
        let source = &cluster.peers[0];
        let (key, value) = (Bytes::from_static(b"key0"), Value::Inline(Bytes::from_static(b"value")));
        let mut coordinator = cluster.connect_as_peer();
        let ballot = promised(&mut coordinator, &key, time_ms(&cluster) + 1);
        begin_repair(&cluster);
        let began = Deadline::begins();
        let mut is_kept_out = false;
        while cluster.report()["repair"]["completed"] != 1 {
            assert!(!began.is_over(), "it does not go on");
            while answer_soon(source, |request| shown_with(request, KEYS, Some(&value))) {}
            if !is_kept_out && kept_out(&cluster) > 0 {
                is_kept_out = true;
                let (stamp, value) = (Stamp::new(ballot), Some(Bytes::from_static(b"decided")));
                let (key, base) = (key.clone(), Base::default());
                let accept = Request::Accept { key, stamp, base, value, durability: None };
                coordinator.ask(&[(2, accept)][..usize::from(ends)]);
            }
        }
        assert!(is_kept_out);
        if ends {
            is_repaired(&cluster);
        } else {
            let report = cluster.report();
            let error = report["repair"]["error"].as_str().expect("one is missing");
            let named = "cells that are still missing: 1 (the first, 'key0': a conditional write of the key is under way)";
            assert!(error.contains(named), "{error}");
        }
        assert_eq!(copied(&cluster), KEYS as u64 - u64::from(!ends));
    }
}

/// The pull waited for as long as a request may take, and then wrote the key anew, although the coordinator had changed nothing.
#[test]
fn what_a_conditional_write_without_effect_kept_out_is_taken_over_as_it_is() {
    const KEYS: usize = 40;
    for value in [Value::Inline(Bytes::from_static(b"value")), Value::Large(BYTES as u64)] {
        let cluster = with_time(2, PATIENCE_MS);
        let key = Bytes::from_static(b"key0");
        let mut coordinator = cluster.connect_as_peer();
        let ballot = promised(&mut coordinator, &key, time_ms(&cluster) + 1);
        begin_repair(&cluster);
        let (began, mut is_kept_out, mut left) = (Deadline::begins(), false, Vec::new());
        while cluster.report()["repair"]["completed"] != 1 {
            assert!(!began.is_over(), "it does not go on");
            while answer_soon(&cluster.peers[0], |request| given(request, KEYS, &value, &mut left)) {}
            if !is_kept_out && kept_out(&cluster) > 0 {
                is_kept_out = true;
                coordinator.ask(&[(2, Request::Release { key: key.clone(), ballot })]);
            }
        }
        assert!(is_kept_out);
        is_repaired(&cluster);
        assert_eq!(copied(&cluster), KEYS as u64);
        // Each of them once, and this one twice.
        assert!(left.is_empty() || left.len() == KEYS + 1, "{left:?}");
    }
}

/// There is room for so many take-overs at a time: all others were left out at once, and the repair failed.
#[test]
fn what_many_coordinators_that_are_gone_keep_out_is_taken_over() {
    const KEYS: usize = 40;
    const PROMISED: u64 = 6;
    const AT_A_TIME: usize = 4;
    let cluster = with_time(2, 5_000);
    let (source, value) = (&cluster.peers[0], Value::Inline(Bytes::from_static(b"value")));
    let mut coordinator = cluster.connect_as_peer();
    // The peers say that it is 1970, and this one says nothing from now on: so its time goes on.
    source.is_mute(true);
    for n in 0..PROMISED {
        promised(&mut coordinator, &Bytes::from(format!("key{n}")), 1 + n);
    }
    begin_repair(&cluster);
    let (began, mut prepares, mut all_wait) = (Deadline::begins(), Vec::new(), false);
    while cluster.report()["repair"]["completed"] != 1 {
        assert!(!began.is_over(), "it does not go on");
        while let Some((number, answer)) = source.asked_soon(|request| match request {
            Request::Prepare { .. } => Some(None),
            Request::Accept { .. } => Some(Some(Answer::Done)),
            request => shown_with(request, KEYS, Some(&value)).map(Some),
        }) {
            match answer {
                Some(answer) => source.answer(number, &answer),
                None => prepares.push(number),
            }
        }
        // None has ended by the time at which the last one is to begin.
        all_wait |= kept_out(&cluster) >= PROMISED && prepares.len() == AT_A_TIME;
        if all_wait {
            prepares.drain(..).for_each(|number| source.answer(number, &read(Some(value.clone()))));
        }
    }
    is_repaired(&cluster);
    assert_eq!(copied(&cluster), KEYS as u64);
}

/// Each of them was asked for, for half a minute if all places were taken, and nothing else was compared meanwhile.
#[test]
fn a_peer_that_gives_no_large_value_ends_the_pull() {
    const KEYS: usize = 100;
    let cluster = with_time(2, PATIENCE_MS);
    let [source, other] = &cluster.peers[..] else { panic!("two peers") };
    begin_repair(&cluster);
    let (began, mut opened) = (Deadline::begins(), 0);
    while cluster.report()["repair"]["completed"] != 1 {
        assert!(!began.is_over(), "it does not go on");
        while answer_soon(source, |request| {
            opened += usize::from(opens(request).is_some());
            let refusal = opens(request).map(|()| Answer::Refused(Refusal::StoreFailed));
            refusal.or_else(|| shown_with(request, KEYS, Some(&Value::Large(BYTES as u64))))
        }) {}
        while answer_soon(other, |request| opens(request).map(|()| Answer::Gone)) {}
    }
    let report = cluster.report();
    let error = report["repair"]["error"].as_str().expect("it gives none");
    assert!(opened < KEYS && !error.contains("still missing"), "{opened}: {error}");
}

/// One damaged block of the node's own kept it from taking over anything behind that.
#[test]
fn what_the_node_cannot_look_up_is_named_and_all_else_is_compared() {
    const KEYS: usize = 40;
    let cluster = scripted_with_time(2, PATIENCE_MS);
    let reason = "block 7 is corrupt".to_owned();
    cluster.store.tell(Script { get: Some(StoreError::Unreadable { reason }), ..Script::default() });
    begin_repair(&cluster);
    let began = Deadline::begins();
    while cluster.report()["repair"]["completed"] != 1 {
        assert!(!began.is_over(), "it does not go on");
        answer_soon(&cluster.peers[0], |request| shown_with(request, KEYS, None));
    }
    let report = cluster.report();
    let error = report["repair"]["error"].as_str().expect("all are missing");
    let expected = "cells that are still missing: 40 (the first, 'key0': this node: block 7 is corrupt)";
    assert!(error.contains(expected), "{error}");
}

/// What a peer answers that has so many keys with this value. `left` has how many pieces are left of each that was opened.
fn given(request: &Request, keys: usize, value: &Value<Bytes, u64>, left: &mut Vec<usize>) -> Option<Answer> {
    match request {
        Request::OpenValue { .. } => {
            left.push(PIECES);
            Some(Answer::Opened(left.len() as u32 - 1))
        }
        Request::Next { stream, .. } => {
            let left = &mut left[*stream as usize];
            *left = left.wrapping_sub(1);
            Some(if *left < PIECES { a_piece() } else { Answer::End })
        }
        request => shown_with(request, keys, Some(value)),
    }
}

fn time_ms<S: Store>(cluster: &Cluster<S>) -> u64 {
    cluster.report()["clock"]["time_ms"].as_u64().expect("a time")
}

fn copied<S: Store>(cluster: &Cluster<S>) -> u64 {
    cluster.report()["repair"]["copied_cells_total"].as_u64().expect("a number")
}

/// How many cells promises have kept out.
fn kept_out<S: Store>(cluster: &Cluster<S>) -> u64 {
    let metrics = cluster.connect().get("/metrics");
    let mut values =
        metrics.text().lines().filter_map(|line| line.strip_prefix("ladoga_promises_kept_out_total "));
    values.next().and_then(|value| value.parse().ok()).expect("a number")
}

/// The node promises to a conditional write, which began at this time, to let nothing older in.
fn promised(coordinator: &mut Caller, key: &Bytes, at_ms: u64) -> Version {
    let ballot = Version { timestamp: HybridClock::at_wall_ms(at_ms), node: 1 };
    coordinator.ask(&[(1, Request::Prepare { key: key.clone(), ballot, durability: None })]);
    assert_eq!(coordinator.answer().1, Answer::Read(ReadAnswer { cell: None, is_whole: true }));
    ballot
}
