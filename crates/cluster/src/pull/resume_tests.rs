use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use ladoga_model::{Cell, CellMark, Stamp, Value, Version};

use crate::failure::Refusal;
use crate::nodes::{NodeId, NodeList};
use crate::placement::Placement;
use crate::pull::{KeyVersion, PullFailure, PullRequest, PullResponse, PullStep, SyncSession};
use crate::tree::MerkleTree;

const PAGES: u8 = 4;
const KEYS_OF_PAGE: u8 = 10;
/// The second one is of the page that breaks off.
const LEFT_OUT: [u8; 2] = [3, 22];
const STAMP: Stamp = Stamp::new(Version { timestamp: 1, node: 0 });

/// A peer that gives whole pages, and a node that takes them.
struct Pair {
    tree: MerkleTree,
    applied: BTreeSet<u8>,
    /// Behind which keys pages were asked for.
    asked_behind: Vec<Option<u8>>,
    /// What is to be done.
    steps: VecDeque<PullStep<Vec<u8>>>,
}

fn pair() -> (SyncSession<Vec<u8>>, Pair) {
    let nodes = NodeList::first((0..3).map(|n| format!("http://node-{n}"))).expect("a list");
    let tree = MerkleTree::new(Arc::new(Placement::of(&nodes)), 3, NodeId(0), 64 << 20);
    let mut steps = VecDeque::new();
    let pull = SyncSession::of_everything(NodeId(1), u64::MAX, &tree, |step| steps.push_back(step));
    (pull, Pair { tree, applied: BTreeSet::new(), asked_behind: Vec::new(), steps })
}

impl Pair {
    /// Until the end, or the cell that breaks it off; answers the failure.
    fn pull(&mut self, pull: &mut SyncSession<Vec<u8>>, breaks_at: u8) -> Option<PullStep<Vec<u8>>> {
        loop {
            let step = self.steps.pop_front().expect("a pull ends with done or failed");
            let mut next = |step| self.steps.push_back(step);
            match step {
                PullStep::Ask(number, PullRequest::List { after, .. }) => {
                    let after = after.map(|key| key[0]);
                    self.asked_behind.push(after);
                    let first = after.map_or(0, |key| key + 1);
                    let mark = CellMark { stamp: STAMP, is_tombstone: false };
                    let last = first + KEYS_OF_PAGE - 1;
                    let entries = (first..=last).map(|key| KeyVersion { key: vec![key], mark }).collect();
                    let next_page = (last < PAGES * KEYS_OF_PAGE - 1).then(|| vec![last]);
                    pull.answered(
                        number,
                        PullResponse::List { entries, next: next_page },
                        &self.tree,
                        &mut next,
                    );
                }
                PullStep::Look(key) if key[0] == breaks_at => return None,
                PullStep::Look(key) if LEFT_OUT.contains(&key[0]) => pull.left_out(&key, &mut next),
                PullStep::Look(key) => {
                    let found = self.applied.contains(&key[0]).then_some(STAMP.version);
                    pull.found(&key, found, &mut next);
                }
                PullStep::Ask(number, PullRequest::Cell(_)) => {
                    let cell = Cell { stamp: STAMP, value: Some(Value::Inline(b"value".to_vec())) };
                    pull.answered(number, PullResponse::Cell(Some(cell)), &self.tree, &mut next);
                }
                PullStep::Apply(key, _) => {
                    assert!(self.applied.insert(key[0]), "twice");
                    pull.applied(&key, Ok(()), &mut next);
                }
                step @ (PullStep::Done | PullStep::Failed(_)) => return Some(step),
                step => panic!("{step:?}"),
            }
        }
    }

    fn resume(&mut self, pull: &mut SyncSession<Vec<u8>>) {
        self.steps.clear();
        pull.resume(|step| self.steps.push_back(step));
    }
}

const NOWHERE: u8 = u8::MAX;

/// A list of everything took hours, and began anew with each restart of a peer.
#[test]
fn a_pull_that_breaks_off_goes_on_with_the_page_that_it_was_at() {
    let (mut pull, mut pair) = pair();
    assert_eq!(pair.pull(&mut pull, 25), None);
    assert!(pull.can_resume());
    pair.resume(&mut pull);
    // At once again, before anything of that page has come.
    pair.resume(&mut pull);
    assert_eq!(pair.pull(&mut pull, 20), None);
    pair.resume(&mut pull);
    let missing = PullFailure::Incomplete { missing: 2, undeleted: 0 };
    assert_eq!(pair.pull(&mut pull, NOWHERE), Some(PullStep::Failed(missing)), "once each");
    assert_eq!(pair.asked_behind, [None, Some(9), Some(19), Some(19), Some(19), Some(29)]);
    let all: BTreeSet<u8> = (0..PAGES * KEYS_OF_PAGE).filter(|key| !LEFT_OUT.contains(key)).collect();
    assert_eq!(pair.applied, all);
    assert!(!pull.can_resume(), "what was left out is behind it");
}

#[test]
fn one_that_breaks_off_at_its_first_page_begins_anew() {
    let (mut pull, mut pair) = pair();
    assert_eq!(pair.pull(&mut pull, 5), None);
    assert!(!pull.can_resume());
}

#[test]
fn a_peer_that_refuses_for_now_is_asked_for_the_same_page_and_one_that_says_what_makes_no_sense_for_all() {
    for (answer, goes_on) in [
        (PullResponse::Refused(Refusal::OverCapacity), true),
        (PullResponse::List { entries: Vec::new(), next: Some(vec![9]) }, false),
    ] {
        let (mut pull, mut pair) = pair();
        assert_eq!(pair.pull(&mut pull, 10), None);
        pair.resume(&mut pull);
        let Some(PullStep::Ask(number, PullRequest::List { after, .. })) = pair.steps.pop_front() else {
            panic!("a page is asked for");
        };
        assert_eq!(after, Some(vec![9]));
        pull.answered(number, answer, &pair.tree, |step| pair.steps.push_back(step));
        assert!(matches!(pair.steps.pop_front(), Some(PullStep::Failed(_))));
        assert_eq!(pull.can_resume(), goes_on);
    }
}
