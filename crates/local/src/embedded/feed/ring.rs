use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{self as model, Cell};
use ladoga_storage::WriteBatch;

/// What a change takes beside its key and its value, about.
const CHANGE_BYTES: usize = 160;

/// The last changes, in the order of their places: see [`Change::at`].
pub(in super::super) struct Ring {
    groups: VecDeque<Arc<Group>>,
    bytes: usize,
    bytes_max: usize,
    /// Everything that was committed at a later place is here.
    floor: u64,
    /// Nothing that was committed until now has a later place; all that will be has.
    last: u64,
}

/// Changes that were committed together, in the order of their places.
pub(in super::super) struct Group {
    changes: Vec<Change>,
    /// Of a replica: every cell with this timestamp or an earlier one was committed before these.
    settled: u64,
    bytes: usize,
}

/// A cell that became the newest of its key; of a large value there is its length.
pub(in super::super) struct Change {
    pub(in super::super) key: Bytes,
    pub(in super::super) cell: Cell<Bytes, u64>,
    /// Its place in the feed: the timestamp of its version, or, of a replica, how many have arrived until then.
    pub(in super::super) at: u64,
}

impl Change {
    pub(in super::super) const fn timestamp(&self) -> u64 {
        self.cell.stamp.version.timestamp
    }
}

impl Group {
    /// A copy of the cells of these batches, in the order of their versions; `None` if there are none.
    pub(in super::super) fn of(batches: &[WriteBatch]) -> Option<Group> {
        let mut changes = copies(batches, |_| true);
        changes.iter_mut().for_each(|change| change.at = change.timestamp());
        // The batches of several event loops, each in its own order.
        changes.sort_by_key(|change| change.at);
        Group::new(changes, 0)
    }

    /// A copy of those cells that became the newest of their keys, by their numbers in all batches, in the order in which they
    /// arrived: behind the place `last`. Everything up to the timestamp `settled` was committed before.
    pub(in super::super) fn arrived(
        batches: &[WriteBatch],
        became_newest: &[bool],
        (last, settled): (u64, u64),
    ) -> Option<Group> {
        let mut changes = copies(batches, |number| became_newest.get(number) != Some(&false));
        (last + 1..).zip(&mut changes).for_each(|(at, change)| change.at = at);
        Group::new(changes, settled)
    }

    fn new(changes: Vec<Change>, settled: u64) -> Option<Group> {
        let content = |change: &Change| {
            let value = change.cell.value.as_ref();
            change.key.len()
                + value
                    .map_or(0, |value| if let model::Value::Inline(bytes) = value { bytes.len() } else { 0 })
        };
        let bytes = changes.iter().map(|change| content(change) + CHANGE_BYTES).sum();
        if changes.is_empty() { None } else { Some(Group { changes, settled, bytes }) }
    }

    /// Its changes behind this place.
    pub(in super::super) fn after(&self, place: u64) -> &[Change] {
        let from = self.changes.partition_point(|change| change.at <= place);
        &self.changes[from..]
    }

    pub(in super::super) fn last(&self) -> u64 {
        self.changes.last().map_or(0, |change| change.at)
    }

    pub(in super::super) const fn settled(&self) -> u64 {
        self.settled
    }
}

/// Copies of the cells with the numbers that are wanted, all in one piece of memory; their places are still to be given.
fn copies(batches: &[WriteBatch], is_wanted: impl Fn(usize) -> bool) -> Vec<Change> {
    let mut bytes = Vec::with_capacity(batches.iter().map(WriteBatch::encoded_bytes).sum());
    let mut cells = Vec::with_capacity(batches.iter().map(WriteBatch::len).sum());
    let all = batches.iter().flat_map(WriteBatch::cells).enumerate();
    for (_, (key, cell)) in all.filter(|(number, _)| is_wanted(*number)) {
        let key_from = bytes.len();
        bytes.extend_from_slice(key);
        let value_from = bytes.len();
        let value = cell.value.map(|value| {
            value.map_inline(|value| {
                bytes.extend_from_slice(value);
                value_from..value_from + value.len()
            })
        });
        cells.push((key_from..value_from, Cell { stamp: cell.stamp, value }));
    }
    let bytes = Bytes::from(bytes);
    let change = |(key, cell): (Range<usize>, Cell<Range<usize>, u64>)| Change {
        key: bytes.slice(key),
        cell: Cell {
            stamp: cell.stamp,
            value: cell.value.map(|value| value.map_inline(|value| bytes.slice(value))),
        },
        at: 0,
    };
    cells.into_iter().map(change).collect()
}

impl Ring {
    /// One that is to have everything behind this place.
    pub(in super::super) const fn new(floor: u64, bytes_max: usize) -> Ring {
        Ring { groups: VecDeque::new(), bytes: 0, bytes_max, floor, last: floor }
    }

    pub(in super::super) const fn last(&self) -> u64 {
        self.last
    }

    pub(in super::super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// These were committed. The oldest give way to them.
    pub(in super::super) fn push(&mut self, group: Group) {
        let first = group.changes.first().map_or(0, |change| change.at);
        debug_assert!(first > self.last, "cells are committed in the order of their places");
        if first <= self.last {
            // A panic here would end all writes. The tables tell what is there in any case.
            return self.forget(group.last());
        }
        self.last = group.last();
        self.bytes += group.bytes;
        self.groups.push_back(Arc::new(group));
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.groups.pop_front()
        {
            self.bytes -= oldest.bytes;
            self.floor = oldest.last();
        }
    }

    /// Nothing that is committed from now on comes at this place, or at an earlier one.
    pub(in super::super) fn advance(&mut self, timestamp: u64) {
        self.last = self.last.max(timestamp);
    }

    /// Forgets all, because something may be missing.
    pub(in super::super) fn forget(&mut self, timestamp: u64) {
        *self = Ring::new(timestamp.max(self.last), self.bytes_max);
    }

    /// The groups with changes behind this place; `None` if some may be gone.
    pub(in super::super) fn behind(&self, timestamp: u64) -> Option<impl Iterator<Item = &Arc<Group>>> {
        if timestamp < self.floor {
            return None;
        }
        let from = self.groups.partition_point(|group| group.last() <= timestamp);
        Some(self.groups.range(from..))
    }
}

/// A value as it is told.
pub(in super::super) fn told(value: &model::Value<Bytes, u64>) -> model::Value<&[u8], u64> {
    match value {
        model::Value::Inline(bytes) => model::Value::Inline(bytes),
        model::Value::Large(length) => model::Value::Large(*length),
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::{Stamp, Version};

    use super::*;

    fn group(timestamps: &[u64]) -> Group {
        let mut batch = WriteBatch::new();
        for &timestamp in timestamps {
            batch.put(b"key", Stamp::new(Version { timestamp, node: 0 }), &[7; 100]);
        }
        Group::of(&[batch]).expect("some")
    }

    fn behind(ring: &Ring, timestamp: u64) -> Option<Vec<u64>> {
        let groups = ring.behind(timestamp)?;
        Some(groups.flat_map(|group| group.after(timestamp)).map(|change| change.at).collect())
    }

    #[test]
    fn what_is_there_is_there_in_order_and_what_is_gone_is_known_to_be() {
        let mut ring = Ring::new(10, 1_000);
        assert_eq!((behind(&ring, 10), behind(&ring, 9)), (Some(vec![]), None));
        ring.push(group(&[13, 11]));
        ring.push(group(&[14]));
        assert_eq!(behind(&ring, 10), Some(vec![11, 13, 14]));
        assert_eq!(behind(&ring, 12), Some(vec![13, 14]));
        assert_eq!(behind(&ring, 14), Some(vec![]));
        ring.push(group(&[20, 21]));
        assert_eq!(behind(&ring, 12), None, "the first group gave way");
        assert_eq!(behind(&ring, 13), Some(vec![14, 20, 21]));
        assert!(ring.bytes() <= 1_000);
        ring.push(group(&[30, 31, 32, 33, 34]));
        assert_eq!(
            (behind(&ring, 33), behind(&ring, 34)),
            (None, Some(vec![])),
            "it is longer than the ring"
        );
        assert_eq!((ring.bytes(), ring.last()), (0, 34));
        ring.push(group(&[35]));
        ring.advance(36);
        assert_eq!((behind(&ring, 34), ring.last()), (Some(vec![35]), 36));
        ring.forget(37);
        assert_eq!((behind(&ring, 36), behind(&ring, 37)), (None, Some(vec![])));
    }

    #[test]
    fn a_change_has_its_own_key_and_value() {
        let stamp = |timestamp| Stamp::new(Version { timestamp, node: 0 });
        let (mut one, mut other) = (WriteBatch::new(), WriteBatch::new());
        one.put(b"a", stamp(5), b"first");
        one.delete(b"b", stamp(3));
        other.put(b"c", stamp(4), b"");
        let group = Group::of(&[one, other]).expect("some");
        let cells: Vec<_> =
            group.after(0).iter().map(|change| (&change.key[..], change.cell.value.clone())).collect();
        let value = |bytes: &'static [u8]| Some(model::Value::Inline(Bytes::from_static(bytes)));
        assert_eq!(cells, [(&b"b"[..], None), (b"c", value(b"")), (b"a", value(b"first"))]);
        assert!(Group::of(&[WriteBatch::new()]).is_none());
    }
}
