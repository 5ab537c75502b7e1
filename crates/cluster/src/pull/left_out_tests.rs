use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use ladoga_model::{Cell, CellMark, Stamp, Value, Version};

use super::{KeyVersion, PullFailure, PullRequest, PullResponse, PullStep, SyncSession};
use crate::nodes::{NodeId, NodeList};
use crate::placement::Placement;
use crate::tree::MerkleTree;

const PAGES: u32 = 3;
const KEYS_OF_PAGE: u32 = 100;
const LAST: u32 = PAGES * KEYS_OF_PAGE - 1;
const STAMP: Stamp = Stamp::new(Version { timestamp: 1, node: 0 });

fn tree() -> MerkleTree {
    let nodes = NodeList::first((0..3).map(|n| format!("http://node-{n}"))).expect("a list");
    MerkleTree::new(Arc::new(Placement::of(&nodes)), 3, NodeId(0), 64 << 20)
}

/// Pulls pages of keys. Those for which this is true are left out before they are looked up, fetched or written.
fn pulled(is_left_out: [fn(u32) -> bool; 3]) -> (BTreeSet<u32>, PullStep<Vec<u8>>) {
    let tree = tree();
    let number_of = |key: &Vec<u8>| u32::from_be_bytes(key[..].try_into().expect("four bytes"));
    let [unread, ungiven, unwritten] = is_left_out;
    let (mut steps, mut applied, mut pages) = (VecDeque::new(), BTreeSet::new(), 0);
    let mut pull = SyncSession::of_everything(NodeId(1), u64::MAX, &tree, |step| steps.push_back(step));
    loop {
        let step = steps.pop_front().expect("a pull ends with done or failed");
        let mut next = |step| steps.push_back(step);
        match step {
            PullStep::Ask(number, PullRequest::List { .. }) => {
                let keys =
                    (pages * KEYS_OF_PAGE..(pages + 1) * KEYS_OF_PAGE).map(|n| n.to_be_bytes().to_vec());
                let mark = CellMark { stamp: STAMP, is_tombstone: false };
                let entries: Vec<_> = keys.map(|key| KeyVersion { key, mark }).collect();
                pages += 1;
                let last = entries.last().map(|entry| entry.key.clone());
                let list = PullResponse::List { entries, next: last.filter(|_| pages < PAGES) };
                pull.answered(number, list, &tree, &mut next);
            }
            PullStep::Look(key) if unread(number_of(&key)) => pull.left_out(&key, &mut next),
            PullStep::Look(key) => pull.found(&key, None, &mut next),
            PullStep::Ask(_, PullRequest::Cell(key)) if ungiven(number_of(&key)) => {
                pull.left_out(&key, &mut next);
            }
            PullStep::Ask(number, PullRequest::Cell(_)) => {
                let cell = Cell { stamp: STAMP, value: Some(Value::Inline(b"value".to_vec())) };
                pull.answered(number, PullResponse::Cell(Some(cell)), &tree, &mut next);
            }
            PullStep::Apply(key, _) if unwritten(number_of(&key)) => pull.left_out(&key, &mut next),
            PullStep::Apply(key, _) => {
                applied.insert(number_of(&key));
                pull.applied(&key, Ok(()), &mut next);
            }
            step @ (PullStep::Done | PullStep::Failed(_)) => return (applied, step),
            step => panic!("{step:?}"),
        }
    }
}

/// What was left out took the place of another one, which was waited for without end.
#[test]
fn a_page_that_has_a_key_twice_ends_it() {
    let tree = tree();
    let (mut steps, key) = (Vec::new(), 0_u32.to_be_bytes().to_vec());
    let mut pull = SyncSession::of_everything(NodeId(1), u64::MAX, &tree, |step| steps.push(step));
    let mark = CellMark { stamp: STAMP, is_tombstone: false };
    let entries = vec![KeyVersion { key, mark }; 2];
    let [PullStep::Ask(number, _)] = steps[..] else { panic!("{steps:?}") };
    steps.clear();
    pull.answered(number, PullResponse::List { entries, next: None }, &tree, |step| steps.push(step));
    assert_eq!(steps, [PullStep::Failed(PullFailure::Malformed)]);
}

/// The first of them ended it, and what was behind that never came.
#[test]
fn all_but_what_is_left_out_is_pulled_before_it_counts_as_failed() {
    let all = PAGES * KEYS_OF_PAGE;
    let none: fn(u32) -> bool = |_| false;
    assert_eq!(pulled([none; 3]), ((0..all).collect(), PullStep::Done));
    for at in 0..3 {
        let mut is_left_out = [none; 3];
        is_left_out[at] = |n| n == 0;
        let failed = PullStep::Failed(PullFailure::Incomplete { missing: 1, undeleted: 0 });
        assert_eq!(pulled(is_left_out), ((1..all).collect(), failed));
    }
    let (applied, last) = pulled([|n| n % 3 == 0, |n| n % 3 == 1, |n| n == LAST]);
    assert_eq!(applied, (0..all - 1).filter(|n| n % 3 == 2).collect());
    let missing = u64::from(2 * all / 3 + 1);
    assert_eq!(last, PullStep::Failed(PullFailure::Incomplete { missing, undeleted: 0 }));
}

/// It counted as missing.
#[test]
fn what_could_not_be_deleted_is_told_as_such() {
    let cases = [
        (false, "cells that are still to be deleted: 2"),
        (true, "cells that are still missing: 1, still to be deleted: 2"),
    ];
    for (is_left_out, expected) in cases {
        let (tree, mut steps) = (tree(), VecDeque::new());
        let pull = SyncSession::of_everything(NodeId(1), u64::MAX, &tree, |step| steps.push_back(step));
        let mut pull = pull.pruning(u64::MAX);
        let failure = loop {
            let step = steps.pop_front().expect("a pull ends with done or failed");
            let mut next = |step| steps.push_back(step);
            match step {
                PullStep::Ask(number, _) => {
                    let mark = CellMark { stamp: STAMP, is_tombstone: false };
                    let entries = vec![KeyVersion { key: b"key".to_vec(), mark }];
                    pull.answered(number, PullResponse::List { entries, next: None }, &tree, &mut next);
                }
                PullStep::Look(key) if is_left_out => pull.left_out(&key, &mut next),
                PullStep::Look(key) => pull.found(&key, Some(STAMP.version), &mut next),
                PullStep::Prune(_) => pull.pruned(Ok(2), &mut next),
                PullStep::Failed(failure) => break failure,
                step => panic!("{step:?}"),
            }
        };
        assert_eq!(failure.to_string(), expected);
    }
}
