use std::sync::atomic::Ordering;

use ladoga_model::Durability;

use super::Inner;
use super::segments::SegmentFile;
use super::write::Writer;
use crate::error::Error;

impl Inner {
    /// Makes the group durable that was appended last, and all before it, while its writer is held: no reader has seen it yet.
    pub(super) fn sync_group(&self, writer: &mut Writer, sequence: u64) -> Result<(), Error> {
        let _syncing = self.writes.syncing.lock();
        // After a failed sync it is unknown what was written, and the kernel may report success to the next one.
        self.check_writable()?;
        if self.writes.durable.load(Ordering::Acquire) + 1 < sequence {
            // Groups before it asked for less.
            self.sync_earlier_segments()?;
        }
        writer.wal.write_ahead();
        self.sync_timed(|| writer.wal.sync())?;
        self.writes.durable.fetch_max(sequence, Ordering::AcqRel);
        Ok(())
    }

    /// For an answer that nothing is written for: what it was decided by is to be as durable as what would have been written.
    pub(super) fn sync_what_is_seen(&self, writer: &mut Writer, durability: Durability) -> Result<(), Error> {
        let written = writer.next_sequence - 1;
        if durability != Durability::Always || self.writes.durable.load(Ordering::Acquire) >= written {
            return Ok(());
        }
        let _syncing = self.writes.syncing.lock();
        self.check_writable()?;
        self.sync_earlier_segments()?;
        self.sync_timed(|| writer.wal.sync())?;
        self.writes.durable.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    fn sync_earlier_segments(&self) -> Result<(), Error> {
        let earlier = std::mem::take(&mut *self.writes.unsynced.lock());
        earlier.values().try_for_each(|segment| self.sync_segment(segment))
    }

    /// Makes the log durable up to what is written now. Writes go on meanwhile.
    pub(super) fn sync_log(&self) -> Result<(), Error> {
        let mut wanted = None;
        loop {
            let writer = self.writes.writer.lock();
            let written = writer.next_sequence - 1;
            // As for a group.
            self.check_writable()?;
            if self.writes.durable.load(Ordering::Acquire) >= *wanted.get_or_insert(written) {
                return Ok(());
            }
            let Some(_syncing) = self.writes.syncing.try_lock() else {
                // Writers need not wait for the sync that another thread is at, and it may do.
                drop(writer);
                drop(self.writes.syncing.lock());
                continue;
            };
            let mut segments = std::mem::take(&mut *self.writes.unsynced.lock());
            segments.insert(writer.wal.number(), (writer.wal.path().clone(), writer.wal.file()));
            drop(writer);
            segments.values().try_for_each(|segment| self.sync_segment(segment))?;
            self.writes.durable.fetch_max(written, Ordering::AcqRel);
            return Ok(());
        }
    }

    /// The same if a group waits for it that is to be on disk within a second.
    pub(super) fn sync_if_due(&self) -> Result<(), Error> {
        let writes = &self.writes;
        if writes.due.load(Ordering::Acquire) <= writes.durable.load(Ordering::Acquire) {
            return Ok(());
        }
        self.sync_log()
    }

    fn sync_segment(&self, (path, file): &SegmentFile) -> Result<(), Error> {
        self.sync_timed(|| file.sync_data().map_err(Error::io("sync", path)))
    }

    /// Never tried again: the system may have dropped the pages that it could not write.
    fn sync_timed(&self, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let started = self.env.clock.monotonic_ns();
        sync().map_err(|error| self.poison(&error))?;
        self.shared.counters.syncs.record(self.env.clock.monotonic_ns() - started);
        Ok(())
    }
}
