//! What anti-entropy cannot take over now, which keeps nothing else from it.

use bytes::Bytes;
use ladoga_cluster::Refusal;
use ladoga_model::Value;
use ladoga_node::peers::wire::{Answer, Request};
use ladoga_node::store::StoreError;

use crate::cluster::{PATIENCE_MS, scripted_with_time};
use crate::peer::Deadline;
use crate::pulls::{BYTES, PIECES, a_piece, answer_soon, begin_repair, opens, shown_with};
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
