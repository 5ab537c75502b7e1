//! What anti-entropy cannot take over now, which keeps nothing else from it.

use bytes::Bytes;
use ladoga_cluster::{ReadAnswer, Refusal};
use ladoga_model::{HybridClock, Stamp, Value, Version};
use ladoga_node::peers::wire::{Answer, Base, Request};
use ladoga_node::store::StoreError;

use crate::cluster::{PATIENCE_MS, scripted_with_time, with_time};
use crate::peer::Deadline;
use crate::pulls::{BYTES, PIECES, a_piece, answer_soon, begin_repair, is_repaired, opens, shown_with};
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
                (Request::OpenValue { .. }, _) => {
                    left.push(PIECES);
                    Some(Answer::Opened(left.len() as u32 - 1))
                }
                (Request::Next { stream, .. }, _) => {
                    let left = &mut left[*stream as usize];
                    *left = left.wrapping_sub(1);
                    Some(if *left < PIECES { a_piece() } else { Answer::End })
                }
                (request, value) => shown_with(request, KEYS, Some(value)),
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
        let now_ms = cluster.report()["clock"]["time_ms"].as_u64().expect("a time");
        let ballot = Version { timestamp: HybridClock::at_wall_ms(now_ms + 1), node: 1 };
        coordinator.ask(&[(1, Request::Prepare { key: key.clone(), ballot, durability: None })]);
        assert_eq!(coordinator.answer().1, Answer::Read(ReadAnswer { cell: None, is_whole: true }));
        begin_repair(&cluster);
        let began = Deadline::begins();
        let mut is_kept_out = false;
        while cluster.report()["repair"]["completed"] != 1 {
            assert!(!began.is_over(), "it does not go on");
            while answer_soon(source, |request| shown_with(request, KEYS, Some(&value))) {}
            let metrics = cluster.connect().get("/metrics");
            if !is_kept_out && !metrics.text().contains("ladoga_promises_kept_out_total 0\n") {
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
        let copied = cluster.report()["repair"]["copied_cells_total"].as_u64();
        assert_eq!(copied, Some(KEYS as u64 - u64::from(!ends)));
    }
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
