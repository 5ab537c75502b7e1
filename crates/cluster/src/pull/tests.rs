use std::collections::BTreeMap;
use std::sync::Arc;

use ladoga_model::{Stamp, Value};

use super::*;
use crate::nodes::NodeList;
use crate::placement::Placement;

type Key = Vec<u8>;

/// A node with its cells: the value is the timestamp.
struct Peer {
    id: NodeId,
    tree: MerkleTree,
    placement: Arc<Placement>,
    cells: BTreeMap<Key, (Stamp, bool)>,
    asked_for_values: usize,
    /// What a pull has this node delete.
    prune_before: u64,
    /// See [`crate::StabilityTracker::tells_of_all`].
    tells_of_all: Option<u8>,
}

impl Peer {
    fn new(placement: &Arc<Placement>, id: u16) -> Peer {
        let tree = MerkleTree::new(placement.clone(), 3, NodeId(id), 64 << 20);
        Peer {
            id: NodeId(id),
            tree,
            placement: placement.clone(),
            cells: BTreeMap::new(),
            asked_for_values: 0,
            prune_before: 0,
            tells_of_all: None,
        }
    }

    fn tells(&self, asker: NodeId, key: &Key, mark: CellMark) -> bool {
        let partition = Partition::of(key);
        match self.tells_of_all {
            Some(copies) => self.placement.holds(partition, asker, mark) || mark.stamp.copies >= copies,
            None => self.placement.both_hold(partition, [self.id, asker], mark),
        }
    }

    fn write(&mut self, key: &[u8], stamp: Stamp, is_tombstone: bool) {
        let old = self.cells.get(key).map(|&(stamp, is_tombstone)| CellMark { stamp, is_tombstone });
        if old.is_some_and(|old| old.stamp.version >= stamp.version) {
            return;
        }
        self.tree.replaced(xxhash_rust::xxh3::xxh3_64(key), old, CellMark { stamp, is_tombstone });
        self.cells.insert(key.to_vec(), (stamp, is_tombstone));
    }

    fn put(&mut self, key: &str, timestamp: u64) {
        self.write(key.as_bytes(), Stamp::new(Version { timestamp, node: 0 }), false);
    }

    /// Answers as a driver does, in pages of two keys.
    fn answer(&mut self, asker: NodeId, request: PullRequest<Key>) -> PullResponse<Key> {
        match request {
            PullRequest::Groups(slice) => {
                let dropped_before = slice.dropped_before.max(self.tree.dropped_before());
                match self.tree.pair(asker, AsOf { dropped_before, ..slice }) {
                    Some(leaves) => PullResponse::Groups { dropped_before, hashes: leaves.groups().to_vec() },
                    None => PullResponse::Refused(Refusal::OverCapacity),
                }
            }
            PullRequest::Leaves { slice, groups } => {
                let leaves = self.tree.pair(asker, slice).expect("as for the groups");
                PullResponse::Leaves(groups.iter().flat_map(|&group| leaves.group(group)).copied().collect())
            }
            PullRequest::List { slice, partitions, after } => {
                let in_list = |key: &Key| partitions.is_empty() || partitions.contains(&Partition::of(key));
                let mut all =
                    self.cells.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
                let page: Vec<_> = all.by_ref().take(2).collect();
                let next = all.next().and_then(|_| page.last().map(|(key, _)| (*key).clone()));
                let entries =
                    page.into_iter().filter(|(key, _)| in_list(key)).filter(|(key, (stamp, dead))| {
                        let mark = CellMark { stamp: *stamp, is_tombstone: *dead };
                        slice.has(mark) && self.tells(asker, key, mark)
                    });
                let entries = entries
                    .map(|(key, &(stamp, is_tombstone))| {
                        let mark = CellMark { stamp, is_tombstone };
                        KeyVersion { key: key.clone(), mark }
                    })
                    .collect();
                PullResponse::List { entries, next }
            }
            PullRequest::Cell(key) => {
                self.asked_for_values += 1;
                let cell = self.cells.get(&key).map(|&(stamp, is_tombstone)| {
                    let value = || Value::Inline(stamp.version.timestamp.to_le_bytes().to_vec());
                    Cell { stamp, value: (!is_tombstone).then(value) }
                });
                PullResponse::Cell(cell)
            }
        }
    }
}

fn pull(ours: &mut Peer, theirs: &mut Peer, before: u64) -> Result<PullProgress, PullFailure> {
    let mut steps = VecDeque::new();
    let pull = SyncSession::new(theirs.id, before, &ours.tree, |step| steps.push_back(step));
    drive(pull, steps, ours, theirs)
}

fn pull_everything(ours: &mut Peer, theirs: &mut Peer) -> Result<PullProgress, PullFailure> {
    let mut steps = VecDeque::new();
    let pull = SyncSession::of_everything(theirs.id, u64::MAX, &ours.tree, |step| steps.push_back(step));
    drive(pull, steps, ours, theirs)
}

fn drive(
    pull: SyncSession<Key>,
    mut steps: VecDeque<PullStep<Key>>,
    ours: &mut Peer,
    theirs: &mut Peer,
) -> Result<PullProgress, PullFailure> {
    let mut pull = pull.pruning(ours.prune_before);
    loop {
        let mut next = Vec::new();
        match steps.pop_front().expect("a pull ends with done or failed") {
            PullStep::Ask(number, request) => {
                let response = theirs.answer(ours.id, request);
                pull.answered(number, response, &ours.tree, |step| next.push(step));
            }
            PullStep::Compare => pull.compare(&ours.tree, |step| next.push(step)),
            PullStep::Look(key) => {
                let version = ours.cells.get(&key).map(|(stamp, _)| stamp.version);
                pull.found(&key, version, |step| next.push(step));
            }
            PullStep::Apply(key, cell) => {
                ours.write(&key, cell.stamp, cell.value.is_none());
                pull.applied(&key, Ok(()), |step| next.push(step));
            }
            PullStep::Prune(prune) => {
                let is_between = |key: &Key| {
                    prune.after.as_ref().is_none_or(|after| key > after)
                        && prune.until.as_ref().is_none_or(|until| key <= until)
                };
                for (key, (stamp, is_tombstone)) in ours.cells.clone() {
                    let mark = CellMark { stamp, is_tombstone };
                    let nodes = [ours.id, theirs.id];
                    let is_shared = ours.placement.both_hold(Partition::of(&key), nodes, mark);
                    if is_between(&key) && is_shared && prune.takes(&key, mark) {
                        let version = Version { node: u16::MAX, ..stamp.version };
                        ours.write(&key, Stamp::new(version), true);
                    }
                }
                pull.pruned(Ok(0), |step| next.push(step));
            }
            PullStep::Done => return Ok(pull.progress()),
            PullStep::Failed(failure) => return Err(failure),
        }
        steps.extend(next);
    }
}

fn peers() -> (Peer, Peer) {
    let names = (0..3).map(|n| format!("http://node-{n}"));
    let placement = Arc::new(Placement::of(&NodeList::first(names).expect("a list")));
    (Peer::new(&placement, 0), Peer::new(&placement, 1))
}

#[test]
fn takes_over_exactly_what_differs() {
    let (mut ours, mut theirs) = peers();
    for n in 0..300 {
        ours.put(&format!("key{n}"), 10);
        theirs.put(&format!("key{n}"), 10);
    }
    theirs.put("key7", 20);
    theirs.put("new", 30);
    ours.put("key9", 40);
    let progress = pull(&mut ours, &mut theirs, u64::MAX).expect("it works out");
    assert_eq!((progress.partitions, progress.applied), (3, 2));
    assert_eq!(theirs.asked_for_values, 2);
    assert_eq!(ours.cells["key7".as_bytes()].0.version.timestamp, 20);
    assert_eq!(ours.cells["key9".as_bytes()].0.version.timestamp, 40);
    assert_eq!(pull(&mut theirs, &mut ours, u64::MAX).expect("it works out").applied, 1);
    let equal = pull(&mut ours, &mut theirs, u64::MAX).expect("it works out");
    assert_eq!(equal, PullProgress::default());
}

#[test]
fn a_tree_that_does_not_tell_deletions_apart_has_to_be_filled_anew() {
    let (mut ours, mut theirs) = peers();
    let window = |n: u64| ladoga_model::HybridClock::at_wall_ms(n * crate::WINDOW_MS);
    for n in 1..60 {
        let stamp = Stamp::new(Version { timestamp: window(n), node: 0 });
        ours.write(format!("key{n}").as_bytes(), stamp, true);
    }
    let at = window(20);
    theirs.tree.drop_before(at);
    let failure = pull(&mut ours, &mut theirs, u64::MAX).expect_err("it cannot be compared");
    assert_eq!(failure, PullFailure::NotToldApart { at });
    ours.tree = ours.tree.emptied(at);
    for (key, &(stamp, is_tombstone)) in &ours.cells {
        ours.tree.replaced(xxhash_rust::xxh3::xxh3_64(key), None, CellMark { stamp, is_tombstone });
    }
    pull(&mut ours, &mut theirs, u64::MAX).expect("it works out");
}

#[test]
fn an_empty_node_gets_everything_but_what_is_for_others() {
    let (mut ours, mut theirs) = peers();
    let mut expected = BTreeMap::new();
    for n in 0..200_u64 {
        let key = format!("key{n}").into_bytes();
        let stamp = Stamp { copies: (n % 4) as u8, ..Stamp::new(Version { timestamp: n + 1, node: 0 }) };
        let is_tombstone = n % 5 == 0;
        theirs.write(&key, stamp, is_tombstone);
        let position = ours.placement.position(Partition::of(&key), ours.id);
        let peer_position = ours.placement.position(Partition::of(&key), theirs.id);
        let copies = if n % 4 == 0 { 3 } else { (n % 4) as usize };
        if is_tombstone || position.max(peer_position) < copies {
            expected.insert(key, (stamp, is_tombstone));
        }
    }
    pull(&mut ours, &mut theirs, u64::MAX).expect("it works out");
    assert_eq!(ours.cells, expected);
}

/// By the list of nodes before this one, the peer was to hold more than now; and what was for all nodes then was for two.
#[test]
fn a_list_of_everything_has_what_the_peer_held_by_another_list_of_nodes() {
    let (mut ours, mut theirs) = peers();
    let mut expected = BTreeMap::new();
    for n in 0..200_u64 {
        let key = format!("key{n}").into_bytes();
        let stamp = Stamp { copies: 1 + (n % 2) as u8, ..Stamp::new(Version { timestamp: n + 1, node: 0 }) };
        theirs.write(&key, stamp, false);
        if stamp.copies == 2 || ours.placement.position(Partition::of(&key), ours.id) == 0 {
            expected.insert(key, (stamp, false));
        }
    }
    pull_everything(&mut ours, &mut theirs).expect("it works out");
    assert!(ours.cells.len() < expected.len(), "what both hold");
    theirs.tells_of_all = Some(2);
    pull_everything(&mut ours, &mut theirs).expect("it works out");
    assert_eq!(ours.cells, expected);
    let (mut empty, _) = peers();
    assert_eq!(pull_everything(&mut ours, &mut empty).expect("nothing to list").applied, 0);
}

/// An older directory has values that were deleted since, and no node knows of those deletions any more.
#[test]
fn what_was_deleted_while_an_older_directory_was_not_in_use_goes() {
    let (mut ours, mut theirs) = peers();
    for n in 0..50 {
        let key = format!("key{n}");
        ours.put(&key, 10);
        // Every second one was deleted.
        if n % 2 == 0 {
            theirs.put(&key, 10);
        }
    }
    let key_of_one = |n: u64, copies: u8| {
        let stamp = Stamp { copies, ..Stamp::new(Version { timestamp: n, node: 0 }) };
        (format!("one{n}").into_bytes(), stamp)
    };
    for n in 10..40 {
        let (key, stamp) = key_of_one(n, 1);
        ours.write(&key, stamp, false);
    }
    ours.put("late", 200);
    assert_eq!(pull(&mut ours, &mut theirs, u64::MAX).expect("it works out").applied, 0);
    assert!(!ours.cells["key1".as_bytes()].1, "only one whose directory is an older one looks for that");
    ours.prune_before = 100;
    pull(&mut ours, &mut theirs, u64::MAX).expect("it works out");
    for n in 0..50 {
        assert_eq!(ours.cells[format!("key{n}").as_bytes()].1, n % 2 == 1, "key{n}");
    }
    assert!(!ours.cells["late".as_bytes()].1, "the peer may not have it yet");
    assert!((10..40).all(|n| !ours.cells[&key_of_one(n, 1).0].1), "it is not for the peer");
}

/// Between the list and the read, the peer got a value that is for itself only. (Found by the simulation, seed 44.)
#[test]
fn what_is_not_for_this_node_is_not_taken_even_if_it_came_since_the_list() {
    let (mut ours, mut theirs) = peers();
    let of_theirs = |n: &u64| {
        let partition = Partition::of(format!("key{n}").as_bytes());
        theirs.placement.position(partition, theirs.id) == 0
    };
    let key = format!("key{}", (0..1000).find(of_theirs).expect("there are enough keys")).into_bytes();
    for is_tombstone in [false, true] {
        let listed = Stamp::new(Version { timestamp: if is_tombstone { 30 } else { 10 }, node: 0 });
        theirs.write(&key, listed, is_tombstone);
        let mut steps = VecDeque::new();
        let mut pull = SyncSession::new(theirs.id, u64::MAX, &ours.tree, |step| steps.push_back(step));
        let mut applied = Vec::new();
        while let Some(step) = steps.pop_front() {
            let mut next = Vec::new();
            match step {
                PullStep::Ask(number, request) => {
                    if matches!(request, PullRequest::Cell(_)) {
                        let version = Version { timestamp: 20, node: 0 };
                        theirs.write(&key, Stamp { copies: 1, ..Stamp::new(version) }, false);
                    }
                    let response = theirs.answer(ours.id, request);
                    pull.answered(number, response, &ours.tree, |step| next.push(step));
                }
                PullStep::Compare => pull.compare(&ours.tree, |step| next.push(step)),
                PullStep::Look(key) => pull.found(&key, None, |step| next.push(step)),
                PullStep::Apply(key, cell) => {
                    ours.write(&key, cell.stamp, true);
                    pull.applied(&key, Ok(()), |step| next.push(step));
                    applied.push(cell);
                }
                PullStep::Done => break,
                PullStep::Prune(_) => panic!("nothing is to be deleted"),
                PullStep::Failed(failure) => panic!("{failure}"),
            }
            steps.extend(next);
        }
        let tombstone = Cell::tombstone(listed);
        assert_eq!(applied, if is_tombstone { vec![tombstone] } else { vec![] });
    }
}

#[test]
fn a_peer_that_is_too_late_or_talks_nonsense_ends_it() {
    let (ours, _) = peers();
    let run = |response: PullResponse<Key>| {
        let mut last = None;
        let mut pull = SyncSession::new(NodeId(1), u64::MAX, &ours.tree, |step| last = Some(step));
        let Some(PullStep::Ask(number, _)) = last else { panic!("it asks first") };
        pull.answered(number, response, &ours.tree, |step| last = Some(step));
        last
    };
    let refusal = Refusal::OverCapacity;
    assert_eq!(run(PullResponse::Refused(refusal)), Some(PullStep::Failed(PullFailure::Refused(refusal))));
    for nonsense in [
        PullResponse::Cell(None),
        PullResponse::Leaves(vec![]),
        PullResponse::Groups { dropped_before: 0, hashes: vec![0; 255] },
        PullResponse::List { entries: vec![], next: None },
    ] {
        assert_eq!(run(nonsense), Some(PullStep::Failed(PullFailure::Malformed)));
    }
}

/// A value that had expired at the peer, and not yet here, counted as taken over, although nothing was here that hides what is older.
#[test]
fn a_large_value_that_is_gone_is_asked_for_once_more() {
    let (ours, mut theirs) = peers();
    let stamp = Stamp::new(Version { timestamp: 10, node: 0 });
    theirs.write(b"key", stamp, false);
    for is_deleted in [true, false] {
        let mut steps = VecDeque::new();
        let mut pull =
            SyncSession::of_everything(theirs.id, u64::MAX, &ours.tree, |step| steps.push_back(step));
        let (mut applied, mut asked) = (Vec::new(), 0);
        while let Some(step) = steps.pop_front() {
            let mut next = |step| steps.push_back(step);
            match step {
                PullStep::Ask(number, PullRequest::Cell(_)) => {
                    asked += 1;
                    let value = (asked == 1 || !is_deleted).then_some(Value::Large(1 << 20));
                    let cell = PullResponse::Cell(Some(Cell { stamp, value }));
                    pull.answered(number, cell, &ours.tree, next);
                }
                PullStep::Ask(number, request) => {
                    pull.answered(number, theirs.answer(ours.id, request), &ours.tree, next);
                }
                PullStep::Look(key) => pull.found(&key, None, next),
                PullStep::Apply(key, Cell { value: Some(_), .. }) => pull.gone(&key, next),
                PullStep::Apply(key, cell) => {
                    applied.push(cell);
                    pull.applied(&key, Ok(()), &mut next);
                }
                PullStep::Done => break,
                step => panic!("{step:?}"),
            }
        }
        assert_eq!(asked, 2, "what is replaced again and again is listed another time");
        assert_eq!(applied, if is_deleted { vec![Cell::tombstone(stamp)] } else { vec![] });
    }
}
