use ladoga_model::{HybridClock, Stamp};
use proptest::prelude::*;

use super::*;
use crate::merkle_diff::{MerkleDiff, SCAN_LEAVES_MAX};
use crate::nodes::NodeList;
use crate::placement::PARTITIONS;
use crate::window::WINDOW_MS;

/// More than any test here needs, but those that are about it.
const BYTES_MAX: usize = 256 << 20;
const MINUTE: u64 = HybridClock::at_wall_ms(2 * WINDOW_MS);

fn placement(nodes: usize) -> Arc<Placement> {
    let names = (0..nodes).map(|n| format!("http://node-{n}"));
    Arc::new(Placement::of(&NodeList::first(names).expect("a list")))
}

fn mark(timestamp: u64, is_tombstone: bool, copies: u8) -> CellMark {
    let version = Version { timestamp, node: 0 };
    CellMark { stamp: Stamp { copies, ..Stamp::new(version) }, is_tombstone }
}

/// A value that expires so many minutes after its write.
fn expiring(timestamp: u64, minutes: u64, copies: u8) -> CellMark {
    let mark = mark(timestamp, false, copies);
    let expires_at_ms = HybridClock::wall_ms(timestamp + minutes * MINUTE);
    CellMark { stamp: Stamp { expires_at_ms, ..mark.stamp }, ..mark }
}

fn all() -> AsOf {
    AsOf { before: u64::MAX, dropped_before: 0 }
}

/// A node's cells, and its tree.
struct Replica {
    tree: MerkleTree,
    cells: BTreeMap<u64, CellMark>,
}

impl Replica {
    fn new(placement: &Arc<Placement>, nodes: usize, me: u16) -> Replica {
        Replica {
            tree: MerkleTree::new(placement.clone(), nodes, NodeId(me), BYTES_MAX),
            cells: BTreeMap::new(),
        }
    }

    fn write(&mut self, key_hash: u64, cell: CellMark) {
        let old = self.cells.get(&key_hash).copied();
        if old.is_none_or(|old| old.stamp.version < cell.stamp.version) {
            self.tree.replaced(key_hash, old, cell);
            self.cells.insert(key_hash, cell);
        }
    }

    /// Fills the tree anew.
    fn fill_anew(&mut self, boundary: u64) {
        self.tree = self.tree.emptied(boundary);
        self.cells.iter().for_each(|(key_hash, cell)| self.tree.replaced(*key_hash, None, *cell));
    }

    fn drop_before(&mut self, timestamp: u64) {
        self.tree.drop_before(timestamp);
        let dropped_before = self.tree.dropped_before();
        self.cells.retain(|_, cell| cell.deleted_at().is_none_or(|deleted_at| deleted_at >= dropped_before));
    }
}

fn differing(one: &Replica, other: &Replica, slice: AsOf) -> Vec<Partition> {
    let ours = one.tree.pair(other.tree.me, slice).expect("it can be compared");
    let theirs = other.tree.pair(one.tree.me, slice).expect("it can be compared");
    let groups = ours.differing_groups(theirs.groups()).expect("as many");
    let leaves: Vec<u64> = groups.iter().flat_map(|&group| theirs.group(group)).copied().collect();
    ours.differing_partitions(&groups, &leaves).expect("as many")
}

#[test]
fn what_one_lacks_is_found_by_its_partition() {
    let placement = placement(3);
    let (mut one, mut other) = (Replica::new(&placement, 3, 0), Replica::new(&placement, 3, 1));
    for key in 1..1000_u64 {
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        one.write(hash, mark(MINUTE + key, false, 0));
        other.write(hash, mark(MINUTE + key, false, 0));
    }
    assert_eq!(differing(&one, &other, all()), []);
    one.write(0x1234_5678_9abc_def0, mark(2 * MINUTE, false, 0));
    assert_eq!(differing(&one, &other, all()), [Partition(0x1234)]);
    let before = AsOf { before: 2 * MINUTE, ..all() };
    assert_eq!(differing(&one, &other, before), [], "it is too new for this comparison");
}

#[test]
fn cells_for_fewer_nodes_are_compared_only_by_those() {
    let placement = placement(3);
    for partition in [0_u16, 7, 4711] {
        let list = placement.preference_list(Partition(partition)).to_vec();
        let hash = u64::from(partition) << 48;
        let mut first = Replica::new(&placement, 3, list[0].0);
        first.write(hash, mark(5, false, 2));
        let [second, third] = [1, 2].map(|place: usize| Replica::new(&placement, 3, list[place].0));
        assert_eq!(differing(&first, &second, all()), [Partition(partition)]);
        assert_eq!(differing(&first, &third, all()), []);
        first.write(hash, mark(6, true, 2));
        assert_eq!(differing(&first, &third, all()), [Partition(partition)], "deletions are for all");
    }
}

#[test]
fn a_comparison_that_is_too_late_is_none() {
    let placement = placement(2);
    let mut replica = Replica::new(&placement, 2, 0);
    for minute in 1..20 {
        replica.write(minute, mark(minute * MINUTE, false, 0));
    }
    let earliest = replica.tree.earliest();
    assert!(earliest > 0);
    let slice = |before| AsOf { before, dropped_before: 0 };
    assert!(replica.tree.pair(NodeId(1), slice(earliest)).is_some());
    assert!(replica.tree.pair(NodeId(1), slice(earliest - 1)).is_none());
    replica.drop_before(5 * MINUTE);
    assert!(replica.tree.pair(NodeId(1), slice(earliest)).is_none(), "tombstones that are gone");
}

#[test]
fn a_step_looks_at_no_more_than_it_may() {
    let placement = placement(3);
    let mut replica = Replica::new(&placement, 3, 0);
    let slice = AsOf { before: u64::MAX, dropped_before: u64::MAX };
    for window in 1..200 {
        replica.write(window << 40, mark(window * MINUTE, true, 0));
    }
    let leaves = replica.tree.leaves_of(slice);
    assert!(leaves > 30, "{leaves}: each span with deletions is looked at");
    let mut scan = MerkleDiff::of_all(NodeId(1), slice);
    let mut steps = 1;
    while scan.step(&replica.tree).expect("it can be compared") {
        steps += 1;
    }
    assert!(steps * SCAN_LEAVES_MAX >= leaves * PARTITIONS, "{steps} steps for {leaves} leaves a partition");
}

#[test]
fn what_is_written_between_two_steps_is_in_no_slice_before_it() {
    let placement = placement(3);
    let mut replica = Replica::new(&placement, 3, 0);
    let hash = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for key in 0..20_000 {
        replica.write(hash(key), mark(MINUTE + key, false, 0));
    }
    let slice = AsOf { before: 2 * MINUTE, dropped_before: 0 };
    let expected = replica.tree.pair(NodeId(1), slice).expect("it can be compared");
    let mut scan = MerkleDiff::of_all(NodeId(1), slice);
    let mut key = 0;
    while scan.step(&replica.tree).expect("it can be compared") {
        // New keys, keys that are replaced, deletions.
        for _ in 0..50 {
            key += 1;
            replica.write(hash(key * 999), mark(2 * MINUTE + key, key.is_multiple_of(2), 0));
        }
    }
    assert!(key > 0, "it took one step");
    assert_eq!(scan.finish(), expected);
    // In the middle of a scan, the slice becomes one that cannot be compared any more.
    let mut scan = MerkleDiff::of_all(NodeId(1), slice);
    assert_eq!(scan.step(&replica.tree), Some(true));
    replica.drop_before(MINUTE);
    assert_eq!(scan.step(&replica.tree), None);
}

#[test]
fn some_groups_are_as_in_a_scan_of_all() {
    let placement = placement(3);
    let mut replica = Replica::new(&placement, 3, 0);
    for key in 0..5000_u64 {
        replica.write(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), mark(MINUTE + key, false, 0));
    }
    let whole = replica.tree.pair(NodeId(2), all()).expect("it can be compared");
    let mut scan = MerkleDiff::of_groups(NodeId(2), all(), vec![3, 200]);
    while scan.step(&replica.tree).expect("it can be compared") {}
    let part = scan.finish();
    assert!([3, 200].iter().all(|&group| part.group(group) == whole.group(group)));
    assert!(whole.group(3).iter().any(|&leaf| leaf != 0));
}

/// Writes a deletion to so many partitions in each of some windows.
fn delete_in(tree: &mut MerkleTree, windows: std::ops::Range<u64>, partitions: u64) {
    for window in windows {
        for partition in 0..partitions {
            tree.replaced(partition << 48 | window, None, mark(window * MINUTE / 2 + partition, true, 0));
        }
    }
}

#[test]
fn deletions_while_a_node_is_away_take_no_more_memory_the_longer_it_is() {
    let placement = placement(3);
    let mut tree = MerkleTree::new(placement, 3, NodeId(0), BYTES_MAX);
    let partitions = PARTITIONS as u64 / 3;
    let bytes: Vec<usize> = [1..40, 40..80, 80..120]
        .into_iter()
        .map(|windows| {
            delete_in(&mut tree, windows, partitions);
            tree.bytes()
        })
        .collect();
    // Half a megabyte for all, for each span, and twice for each window.
    assert!(bytes[0] <= (1 + 8 + 2 * 8) * PARTITIONS * 8, "{bytes:?}");
    assert!(bytes.iter().all(|&now| now == bytes[0]), "{bytes:?}");
}

#[test]
fn a_tree_that_takes_too_much_folds_its_windows_earlier() {
    let placement = placement(3);
    let mut roomy = MerkleTree::new(placement.clone(), 3, NodeId(0), BYTES_MAX);
    let mut tight = MerkleTree::new(placement, 3, NodeId(0), 6 << 20);
    for tree in [&mut roomy, &mut tight] {
        delete_in(tree, 1..20, PARTITIONS as u64 / 3);
    }
    assert!(roomy.bytes() > 8 << 20, "{}", roomy.bytes());
    // But for the window of now.
    assert!(tight.bytes() <= 7 << 20, "{}", tight.bytes());
    assert!(tight.earliest() > roomy.earliest());
    let slice = AsOf { before: tight.earliest(), dropped_before: 0 };
    let of = |tree: &MerkleTree| tree.pair(NodeId(1), slice).expect("it can be compared");
    assert_eq!(of(&tight), of(&roomy), "what it tells is the same");
}

#[test]
fn deletions_that_are_not_told_apart_are_after_the_tree_is_filled_anew() {
    let placement = placement(2);
    let (mut one, mut other) = (Replica::new(&placement, 2, 0), Replica::new(&placement, 2, 1));
    for minute in 1..60 {
        one.write(minute << 50, mark(minute * MINUTE, true, 0));
    }
    // The other tree has what was deleted from then on.
    for minute in 20..60 {
        other.write(minute << 50, mark(minute * MINUTE, true, 0));
    }
    let slice = AsOf { before: u64::MAX, dropped_before: 20 * MINUTE };
    assert!(one.tree.cuts(slice.dropped_before) && one.tree.pair(NodeId(1), slice).is_none());
    one.drop_before(20 * MINUTE);
    assert_eq!(one.tree.dropped_before(), MINUTE, "a span stays as a whole");
    for replica in [&mut one, &mut other] {
        replica.fill_anew(20 * MINUTE);
    }
    assert!(!one.tree.cuts(slice.dropped_before));
    assert_eq!(differing(&one, &other, slice), []);
    one.drop_before(20 * MINUTE);
    assert_eq!(one.tree.dropped_before(), 20 * MINUTE);
    assert_eq!(differing(&one, &other, slice), []);
    other.write(30 << 50, mark(70 * MINUTE, false, 0));
    assert_eq!(differing(&one, &other, slice), [Partition((30_u64 << 50 >> 48) as u16)]);
}

#[test]
fn a_value_that_expires_is_compared_as_long_as_it_lives_and_left_out_once_all_have_closed_its_end() {
    let placement = placement(3);
    let (mut one, mut other) = (Replica::new(&placement, 3, 0), Replica::new(&placement, 3, 1));
    let cell = expiring(10 * MINUTE + 7, 60, 0);
    let hash = 0x1234_5678_9abc_def0;
    for replica in [&mut one, &mut other] {
        replica.write(1, mark(5 * MINUTE, false, 0));
    }
    one.write(hash, cell);
    let end = cell.deleted_at().expect("it expires");
    assert!((70 * MINUTE..110 * MINUTE).contains(&end));
    // Everyone had everything from before: so did the node that has lost its disk since, and is to get it again.
    for before in [11 * MINUTE, 69 * MINUTE, end] {
        one.drop_before(before);
        let slice = AsOf { before: u64::MAX, dropped_before: one.tree.dropped_before() };
        assert_eq!(differing(&one, &other, slice), [Partition(0x1234)], "{before}");
    }
    one.drop_before(end + MINUTE);
    assert_eq!(one.cells.len(), 1, "a compaction may have dropped it by now");
    let slice = AsOf { before: u64::MAX, dropped_before: one.tree.dropped_before() };
    assert_eq!(differing(&one, &other, slice), []);
    // Nodes that have dropped it and nodes that have not replace it by the same.
    other.write(hash, cell);
    other.drop_before(end + MINUTE);
    other.cells.remove(&hash);
    for replica in [&mut one, &mut other] {
        replica.write(hash, mark(200 * MINUTE, false, 0));
    }
    assert_eq!(differing(&one, &other, slice), []);
    one.fill_anew(0);
    assert_eq!(differing(&one, &other, slice), []);
}

/// Values of a few lengths of life are written for days, over each other, as sessions are.
#[test]
fn values_that_expire_take_few_windows_of_those_that_are_ahead_and_few_of_those_that_are_over() {
    let placement = placement(3);
    let mut tree = MerkleTree::new(placement, 3, NodeId(0), BYTES_MAX);
    let partitions = PARTITIONS as u64 / 3;
    let mut bytes = Vec::new();
    let mut cells: BTreeMap<u64, CellMark> = BTreeMap::new();
    for minute in 1..400_u64 {
        for n in 0..200 {
            let key = ((minute * 200 + n) * 7_919 % partitions) << 48;
            let lives = [10, 60, 1_440][(n % 3) as usize];
            let cell = expiring(minute * MINUTE + n, lives, 0);
            tree.replaced(key, cells.insert(key, cell), cell);
        }
        if minute > 100 {
            tree.drop_before((minute - 5) * MINUTE);
            assert_eq!(tree.dropped_before(), (minute - 5) * MINUTE, "no span is across");
            bytes.push(tree.bytes());
        }
    }
    // Each cell is in a leaf and beside it, and what it replaced is.
    let most = bytes.iter().max().expect("some");
    assert!(*most < 12 << 20, "{most}");
}

#[derive(Debug, Clone)]
enum Action {
    Write { key: u64, minute: u64, kind: Kind, copies: u8, to: [bool; 2] },
    DropOn(usize),
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Value,
    Tombstone,
    /// So many minutes after its write.
    Expiring(u64),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let kind = prop_oneof![
        Just(Kind::Value),
        Just(Kind::Tombstone),
        prop_oneof![0..20_u64, 0..100_000_u64].prop_map(Kind::Expiring)
    ];
    let write = (0..8_u64, 1..60_u64, kind, 0..3_u8, any::<[bool; 2]>())
        .prop_map(|(key, minute, kind, copies, to)| Action::Write { key, minute, kind, copies, to });
    proptest::collection::vec(prop_oneof![8 => write, 1 => (0..2_usize).prop_map(Action::DropOn)], 1..120)
}

/// Tombstones from before this minute are dropped, if no node misses any.
const DROPPED_MINUTE: u64 = 20;

proptest! {
    /// Whatever the order of arrivals and drops, trees are equal if the cells are, and differ if they do.
    #[test]
    fn trees_are_equal_where_the_cells_are(actions in actions()) {
        let placement = placement(2);
        let mut replicas = [Replica::new(&placement, 2, 0), Replica::new(&placement, 2, 1)];
        let spread = |key: u64| key << 48;
        let mut missed = [Vec::new(), Vec::new()];
        for (n, action) in actions.iter().enumerate() {
            match *action {
                Action::Write { key, minute, kind, copies, to } => {
                    let timestamp = minute * MINUTE + n as u64;
                    let cell = match kind {
                        Kind::Value => mark(timestamp, false, copies),
                        Kind::Tombstone => mark(timestamp, true, copies),
                        Kind::Expiring(minutes) => expiring(timestamp, minutes, copies),
                    };
                    for (index, replica) in replicas.iter_mut().enumerate() {
                        if to[index] { replica.write(spread(key), cell) } else { missed[index].push((key, cell)) }
                    }
                }
                // Only what both have may go: here, what they have before anything that one of them missed.
                Action::DropOn(index) => {
                    let oldest = missed.iter().flatten().map(|(_, cell)| cell.stamp.version.timestamp).min();
                    if oldest.is_none_or(|oldest| oldest > DROPPED_MINUTE * MINUTE) {
                        replicas[index].drop_before(DROPPED_MINUTE * MINUTE);
                    }
                }
            }
        }
        // Nothing in the end may depend on which of them was asked to drop anything.
        let dropped_before = replicas.iter().map(|replica| replica.tree.dropped_before()).max().unwrap_or(0);
        let slice = AsOf { before: u64::MAX, dropped_before };
        for replica in &mut replicas {
            if replica.tree.cuts(dropped_before) {
                replica.fill_anew(dropped_before);
            }
        }
        let shared = |replica: &Replica, key: u64| {
            let cell = replica.cells.get(&spread(key)).copied();
            cell.filter(|cell| slice.has(*cell) && (cell.is_tombstone || cell.stamp.copies != 1))
        };
        let [one, other] = &replicas;
        let expected: Vec<Partition> =
            (0..8).filter(|&key| shared(one, key) != shared(other, key)).map(|key| Partition(key as u16)).collect();
        prop_assert_eq!(differing(one, other, slice), expected);
    }
}
