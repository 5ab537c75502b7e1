//! From the log to memtables when a store is opened; or to tables, if the log is more than memory has room for, because the
//! store was written with a larger budget.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Inner;
use crate::batch::records;
use crate::blob::{BlobRef, BlobRegistry};
use crate::error::Error;
use crate::levels::Edit;
use crate::memtable::{Memtable, MemtableWriter, worst_bytes};
use crate::options::SEALED_MAX;
use crate::paths;
use crate::record::Record;
use crate::table::{Table, TableMeta};
use crate::wal::{LogGroup, LogStart, Replayed, replay};

/// What a store has at most when it ends: those that wait for their flush, and the one that takes writes.
const MEMTABLES_MAX: usize = SEALED_MAX + 1;

/// The first reading of the log: its groups as memtables, one for each segment, as long as memory has room for them.
pub(super) struct ReplayedMemtables {
    capacity: usize,
    seed: u64,
    registry: Arc<BlobRegistry>,
    open: Option<MemtableWriter>,
    /// Oldest first.
    pub(super) whole: Vec<Arc<Memtable>>,
    /// The log is more than memory has room for; then there are none.
    pub(super) is_too_much: bool,
    pub(super) newest_timestamp: u64,
    /// All that the log names. Kept for as long as the log does: a large value that was replaced within a memtable is in no
    /// table, but its file has to be there as long as the next open may read the log again.
    blobs: BTreeMap<u64, BlobRef>,
}

impl ReplayedMemtables {
    pub(super) const fn new(capacity: usize, seed: u64, registry: Arc<BlobRegistry>) -> ReplayedMemtables {
        ReplayedMemtables {
            capacity,
            seed,
            registry,
            open: None,
            whole: Vec::new(),
            is_too_much: false,
            newest_timestamp: 0,
            blobs: BTreeMap::new(),
        }
    }

    pub(super) fn apply(&mut self, group: &LogGroup<'_>) -> Result<(), Error> {
        let mut count = 0;
        let mut blobs: Vec<BlobRef> = Vec::new();
        for record in group.records() {
            let record = record?;
            if let Some(blob) = record.blob() {
                let kept = self.blobs.entry(blob.file).or_insert_with(|| self.registry.refer(blob.file));
                blobs.push(kept.clone());
            }
            self.newest_timestamp = self.newest_timestamp.max(record.stamp.version.timestamp);
            count += 1;
        }
        if self.is_too_much {
            return Ok(());
        }
        if self.open.as_ref().is_some_and(|open| open.table().wal_number() != group.segment) {
            self.seal(group.sequence);
        }
        if self.open.is_none() && self.whole.len() == MEMTABLES_MAX {
            self.give_up();
            return Ok(());
        }
        let (capacity, seed) = (self.capacity, self.seed);
        let open = self.open.get_or_insert_with(|| MemtableWriter::new(capacity, group.segment, seed));
        if !open.has_room(count, group.payload.len()) {
            self.give_up();
            return Ok(());
        }
        open.keep_blobs(&blobs);
        for record in records(group.payload).flatten() {
            open.insert(group.sequence, &record).expect("room was made for the group");
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, end_sequence: u64) {
        self.seal(end_sequence);
    }

    fn seal(&mut self, end_sequence: u64) {
        if let Some(open) = self.open.take() {
            open.table().seal(end_sequence);
            self.whole.push(open.table().clone());
        }
    }

    fn give_up(&mut self) {
        self.is_too_much = true;
        self.open = None;
        self.whole.clear();
    }
}

impl Inner {
    /// The second reading of a log that is more than memory has room for: into tables, one memtable at a time. A segment is
    /// removed once all of it is in tables. After a crash before that the next open reads it again, and some of its cells are
    /// in two tables.
    pub(super) fn flush_log(&self, start: LogStart, log: &Replayed) -> Result<(), Error> {
        let start = LogStart { secret: self.writes.secret, ..start };
        let mut tables =
            ReplayedTables { inner: self, segment: start.first_wal, open: None, larges: BTreeSet::new() };
        let again = replay(&*self.env.disk, &self.dir, start, &mut |group| tables.apply(&group))?;
        if again.next_sequence != log.next_sequence {
            // What is missing now was there a moment ago, and is durable.
            let &(number, end) = log.segments.last().expect("a log that is too much has segments");
            return Err(Error::Corruption {
                path: paths::wal(&self.dir, number),
                offset: end,
                what: "log, read again",
                expected: format!("group {} to come next", log.next_sequence),
                found: format!("group {}", again.next_sequence),
            });
        }
        tables.end_segments(log.next_number, log.next_sequence)
    }
}

/// The log's groups on their way to tables.
struct ReplayedTables<'a> {
    inner: &'a Inner,
    /// The first that is not whole in tables.
    segment: u64,
    open: Option<MemtableWriter>,
    /// The large values that the segment names.
    larges: BTreeSet<u64>,
}

impl ReplayedTables<'_> {
    fn apply(&mut self, group: &LogGroup<'_>) -> Result<(), Error> {
        if self.segment != group.segment {
            self.end_segments(group.segment, group.sequence)?;
        }
        for record in group.records() {
            self.insert(group, &record?)?;
        }
        Ok(())
    }

    /// Groups may be larger than a memtable. That splits them, but no reader runs before all of them are in tables.
    fn insert(&mut self, group: &LogGroup<'_>, record: &Record<'_>) -> Result<(), Error> {
        let bytes = record.encoded_bytes();
        if self.open.as_ref().is_some_and(|open| !open.has_room(1, bytes)) {
            let added = self.flush()?;
            self.install(Edit { added, ..Edit::default() })?;
        }
        let inner = self.inner;
        let open = self.open.get_or_insert_with(|| {
            let capacity = inner.budget.memtable_bytes.max(worst_bytes(1, bytes) + 64);
            MemtableWriter::new(capacity, group.segment, inner.env.rng.next_u64())
        });
        if let Some(blob) = record.blob() {
            open.keep_blobs(&[inner.shared.blobs.refer(blob.file)]);
            self.larges.insert(blob.file);
        }
        open.insert(group.sequence, record).expect("room was made for the record");
        Ok(())
    }

    /// All segments before `next` are read, which begins with group `next_sequence`.
    fn end_segments(&mut self, next: u64, next_sequence: u64) -> Result<(), Error> {
        let added = self.flush()?;
        let larges = std::mem::take(&mut self.larges);
        (self.segment..next)
            .for_each(|number| self.inner.keep_segment(number, next_sequence, || larges.clone()));
        let (first_wal, first_sequence) = (Some(next), Some(next_sequence));
        self.install(Edit { first_wal, first_sequence, added, ..Edit::default() })?;
        (self.segment..next).for_each(|number| self.inner.release_segment(number));
        self.segment = next;
        Ok(())
    }

    /// Writes the memtable to tables, which nothing names yet.
    fn flush(&mut self) -> Result<Vec<(usize, TableMeta)>, Error> {
        let Some(open) = self.open.take() else { return Ok(Vec::new()) };
        let metas = self.inner.write_memtable(open.table())?;
        Ok(metas.into_iter().map(|meta| (0, meta)).collect())
    }

    fn install(&self, edit: Edit) -> Result<(), Error> {
        let table =
            |(level, meta): &(usize, TableMeta)| (*level, Table::new(&self.inner.shared, meta.clone()));
        let added: Vec<_> = edit.added.iter().map(table).collect();
        self.inner.install(edit, &added, &[], None)
    }
}
