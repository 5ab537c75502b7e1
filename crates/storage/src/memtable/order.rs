use std::cmp::Ordering;
use std::sync::Arc;

use super::Memtable;
use super::arena::Arena;
use super::node::{KeyNode, ValueNode};
use crate::coding::{common_prefix, head_u64};
use crate::record::Record;

/// Keys in order, as offsets of their nodes.
pub(super) type Run = Arc<[u32]>;

/// The order of a memtable's keys, made when it is asked for: sorted runs, each at least twice as long as the next,
/// so that a key is merged a logarithmic number of times however often somebody asks.
#[derive(Default)]
pub(super) struct SortedRuns {
    runs: Vec<Run>,
    /// The last key that is in a run.
    up_to: u32,
}

impl SortedRuns {
    pub(super) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.runs.iter()
    }

    /// Takes in the keys that arrived since, back from `last_key`.
    pub(super) fn add_new(&mut self, arena: &Arena, last_key: u32) {
        let mut offsets = Vec::new();
        let mut offset = last_key;
        while offset != self.up_to {
            offsets.push(offset);
            offset = KeyNode::at(arena, offset).previous_key();
        }
        self.up_to = last_key;
        if offsets.is_empty() {
            return;
        }
        self.runs.push(sort(arena, &offsets));
        while let [.., longer, last] = self.runs.as_slice()
            && longer.len() < last.len() * 2
        {
            let merged = merge(arena, longer, last);
            self.runs.truncate(self.runs.len() - 2);
            self.runs.push(merged);
        }
    }

    /// One run of everything.
    pub(super) fn merge_all(&mut self, arena: &Arena) -> Run {
        while let [.., longer, last] = self.runs.as_slice() {
            let merged = merge(arena, longer, last);
            self.runs.truncate(self.runs.len() - 2);
            self.runs.push(merged);
        }
        self.runs.first().cloned().unwrap_or_else(|| Arc::from([]))
    }
}

fn key(arena: &Arena, offset: u32) -> &[u8] {
    KeyNode::at(arena, offset).key()
}

/// Sorts by the eight bytes behind the keys' common prefix, which fit into registers, and compares whole keys only if those are
/// equal.
fn sort(arena: &Arena, offsets: &[u32]) -> Run {
    let first = key(arena, offsets[0]);
    let shared = offsets
        .iter()
        .fold(first.len(), |shared, &offset| common_prefix(&first[..shared], key(arena, offset)));
    let mut decorated: Vec<(u64, u32)> =
        offsets.iter().map(|&offset| (head_u64(&key(arena, offset)[shared..]), offset)).collect();
    decorated.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| key(arena, a.1)[shared..].cmp(&key(arena, b.1)[shared..]))
    });
    decorated.into_iter().map(|(_, offset)| offset).collect()
}

fn merge(arena: &Arena, a: &[u32], b: &[u32]) -> Run {
    let mut merged = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.iter().copied().peekable(), b.iter().copied().peekable());
    while let (Some(&left), Some(&right)) = (a.peek(), b.peek()) {
        let first = match key(arena, left).cmp(key(arena, right)) {
            Ordering::Less => a.next(),
            Ordering::Greater => b.next(),
            Ordering::Equal => unreachable!("a key has one node"),
        };
        merged.extend(first);
    }
    merged.extend(a);
    merged.extend(b);
    merged.into()
}

/// How many keys ahead of a walk a key's node and its version are prefetched: neighbours by key lie anywhere in the arena.
const KEYS_AHEAD: usize = 16;
const VERSIONS_AHEAD: usize = 8;

/// Walks one sorted run as of a sequence. Keys that came later are passed over.
#[derive(Clone)]
pub(crate) struct RunCursor {
    table: Arc<Memtable>,
    run: Run,
    sequence: u64,
    /// One past the current position when walking backward is not needed: `index < run.len()` is valid.
    index: usize,
    /// The version at a valid position, found once: a key may have millions that are newer, and who merges comes back to it with every
    /// record of another source.
    value: u32,
}

impl RunCursor {
    pub(super) fn new(table: Arc<Memtable>, run: Run, sequence: u64) -> RunCursor {
        let index = run.len();
        RunCursor { table, run, sequence, index, value: 0 }
    }

    pub(crate) const fn table(&self) -> &Arc<Memtable> {
        &self.table
    }

    fn key_at(&self, index: usize) -> Option<KeyNode<'_>> {
        Some(KeyNode::at(&self.table.arena, *self.run.get(index)?))
    }

    pub(crate) fn record(&self) -> Option<Record<'_>> {
        let key = self.key_at(self.index)?.key();
        Some(ValueNode::at(&self.table.arena, self.value).record(key))
    }

    /// All records of the run, in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.run.len()).filter_map(|index| {
            self.fetch_ahead(index);
            self.key_at(index)?.record_at(self.sequence)
        })
    }

    fn fetch_ahead(&self, index: usize) {
        if let Some(node) = self.key_at(index + KEYS_AHEAD) {
            node.prefetch();
        }
        if let Some(node) = self.key_at(index + VERSIONS_AHEAD) {
            node.newest().prefetch();
        }
    }

    fn lower_bound(&self, key_wanted: &[u8]) -> usize {
        self.run.partition_point(|&offset| key(&self.table.arena, offset) < key_wanted)
    }

    /// To the first key at or behind `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.index = self.lower_bound(key);
        self.skip_forward();
    }

    /// To the last key before `key`, or of all.
    pub(crate) fn seek_before(&mut self, key: Option<&[u8]>) {
        let end = key.map_or(self.run.len(), |key| self.lower_bound(key));
        self.skip_backward(end);
    }

    pub(crate) fn next(&mut self) {
        self.index += 1;
        self.fetch_ahead(self.index);
        self.skip_forward();
    }

    pub(crate) fn previous(&mut self) {
        self.skip_backward(self.index);
    }

    fn skip_forward(&mut self) {
        while self.index < self.run.len() && !self.has_version_at(self.index) {
            self.index += 1;
        }
    }

    fn skip_backward(&mut self, mut end: usize) {
        while end > 0 && !self.has_version_at(end - 1) {
            end -= 1;
        }
        self.index = if end > 0 { end - 1 } else { self.run.len() };
    }

    /// Looks for the version at a position, and keeps it.
    fn has_version_at(&mut self, index: usize) -> bool {
        let value = self.key_at(index).and_then(|key| key.value_at(self.sequence)).map(ValueNode::offset);
        self.value = value.unwrap_or(0);
        value.is_some()
    }
}
