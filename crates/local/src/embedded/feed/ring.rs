use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{self as model, Cell};
use ladoga_storage::WriteBatch;

/// What a change takes beside its key and its value, about.
const CHANGE_BYTES: usize = 160;

/// The last changes, in the order of their timestamps.
pub(in super::super) struct Ring {
    groups: VecDeque<Arc<Group>>,
    bytes: usize,
    bytes_max: usize,
    /// Everything that was committed with a later timestamp is here.
    floor: u64,
    /// Nothing that was committed until now has a later timestamp; all that will be has.
    last: u64,
}

/// Changes that were committed together, sorted by their timestamps.
pub(in super::super) struct Group {
    changes: Vec<Change>,
    bytes: usize,
}

/// A cell that became the newest of its key; of a large value there is its length.
pub(in super::super) struct Change {
    pub(in super::super) key: Bytes,
    pub(in super::super) cell: Cell<Bytes, u64>,
}

impl Change {
    pub(in super::super) const fn timestamp(&self) -> u64 {
        self.cell.stamp.version.timestamp
    }
}

impl Group {
    /// A copy of the cells of these batches; `None` if there are none.
    pub(in super::super) fn of(batches: &[WriteBatch]) -> Option<Group> {
        let mut bytes = Vec::with_capacity(batches.iter().map(WriteBatch::encoded_bytes).sum());
        let mut cells = Vec::with_capacity(batches.iter().map(WriteBatch::len).sum());
        for (key, cell) in batches.iter().flat_map(WriteBatch::cells) {
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
        let mut changes: Vec<_> = cells
            .into_iter()
            .map(|(key, cell)| Change {
                key: bytes.slice(key),
                cell: Cell {
                    stamp: cell.stamp,
                    value: cell.value.map(|value| value.map_inline(|value| bytes.slice(value))),
                },
            })
            .collect();
        // The batches of several event loops, each in its own order.
        changes.sort_by_key(Change::timestamp);
        let bytes = bytes.len() + changes.len() * CHANGE_BYTES;
        if changes.is_empty() { None } else { Some(Group { changes, bytes }) }
    }

    /// Its changes after this timestamp.
    pub(in super::super) fn after(&self, timestamp: u64) -> &[Change] {
        let from = self.changes.partition_point(|change| change.timestamp() <= timestamp);
        &self.changes[from..]
    }

    pub(in super::super) fn last(&self) -> u64 {
        self.changes.last().map_or(0, Change::timestamp)
    }
}

impl Ring {
    /// One that is to have everything after this timestamp.
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
        let first = group.changes.first().map_or(0, Change::timestamp);
        debug_assert!(first > self.last, "cells are committed in the order of their versions");
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

    /// Nothing that is committed from now on is as old as this.
    pub(in super::super) fn advance(&mut self, timestamp: u64) {
        self.last = self.last.max(timestamp);
    }

    /// Forgets all, because something may be missing.
    pub(in super::super) fn forget(&mut self, timestamp: u64) {
        *self = Ring::new(timestamp.max(self.last), self.bytes_max);
    }

    /// The groups with changes after this timestamp; `None` if some may be gone.
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
        Some(groups.flat_map(|group| group.after(timestamp)).map(Change::timestamp).collect())
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
