use std::collections::VecDeque;
use std::sync::Arc;

use ladoga_model::{Cell, CellMark, Stamp, Value, Version};

use super::{KeyVersion, PullRequest, PullResponse, PullStep, SyncSession};
use crate::nodes::{NodeId, NodeList};
use crate::placement::Placement;
use crate::tree::MerkleTree;

const COMPLETE_BEFORE: u64 = 100;

/// A node that had taken the place of another one in the list asked for what it refuses in each pull, twice a minute.
#[test]
fn what_this_node_refuses_is_not_asked_for() {
    let nodes = NodeList::first((0..3).map(|n| format!("http://node-{n}"))).expect("a list");
    let tree = MerkleTree::new(Arc::new(Placement::of(&nodes)), 3, NodeId(0), 64 << 20);
    let stamp_of = |timestamp| Stamp::new(Version { timestamp, node: 0 });
    let [refused, taken] = [COMPLETE_BEFORE - 1, COMPLETE_BEFORE].map(stamp_of);
    let entry = |key: &[u8], stamp, is_tombstone| {
        let mark = CellMark { stamp, is_tombstone };
        KeyVersion { key: key.to_vec(), mark }
    };
    let entries = [
        entry(b"refused", refused, false),
        entry(b"refused deletion", refused, true),
        entry(b"taken", taken, false),
    ];
    let mut steps = VecDeque::new();
    let pull = SyncSession::of_everything(NodeId(1), u64::MAX, &tree, |step| steps.push_back(step));
    let mut pull = pull.refusing_before(COMPLETE_BEFORE);
    let (mut looked_at, mut asked_for, mut applied) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let step = steps.pop_front().expect("a pull ends with done or failed");
        let mut next = |step| steps.push_back(step);
        match step {
            PullStep::Ask(number, PullRequest::List { .. }) => {
                let list = PullResponse::List { entries: entries.to_vec(), next: None };
                pull.answered(number, list, &tree, &mut next);
            }
            PullStep::Look(key) => {
                looked_at.push(key.clone());
                pull.found(&key, None, &mut next);
            }
            PullStep::Ask(number, PullRequest::Cell(key)) => {
                asked_for.push(key);
                let cell = Cell { stamp: taken, value: Some(Value::Inline(b"value".to_vec())) };
                pull.answered(number, PullResponse::Cell(Some(cell)), &tree, &mut next);
            }
            PullStep::Apply(key, _) => {
                pull.applied(&key, Ok(()), &mut next);
                applied.push(key);
            }
            PullStep::Done => break,
            step => panic!("{step:?}"),
        }
    }
    // Nor looked at: if this node cannot read what it has there, nothing is missing all the same.
    for keys in [looked_at, asked_for, applied] {
        assert_eq!(keys, [b"taken"]);
    }
}
