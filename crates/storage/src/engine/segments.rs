use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use ladoga_env::File;

use super::Inner;
use crate::error::Error;
use crate::health::WriteState;
use crate::options::MEMTABLE_BYTES;
use crate::wal::WalWriter;

/// The size of the first segment of a store that has next to nothing: an empty store takes little room on the disk.
const FIRST_BYTES: u64 = 256 << 10;
/// By how much each segment is larger than the one before, until they are of full size.
const GROWTH: u64 = 2;

/// A segment's file, and where it is.
pub(super) type SegmentFile = (PathBuf, Arc<dyn File>);

/// The segments that come next. Locked while one is made, so that no number is used twice.
pub(super) struct NextSegment {
    number: u64,
    /// The size that it gets.
    bytes: u64,
    /// Made ahead.
    ready: Option<WalWriter>,
}

impl NextSegment {
    /// Behind one of this number and size.
    pub(super) fn behind(segment: &WalWriter, full_bytes: u64) -> NextSegment {
        NextSegment {
            number: segment.number() + 1,
            bytes: larger(segment.capacity(), full_bytes),
            ready: None,
        }
    }
}

/// The size of the first segment after a start: as much as the store has, since that tells how much will come.
pub(super) fn first_bytes(set_bytes: Option<u64>, store_bytes: u64, full_bytes: u64) -> u64 {
    set_bytes.unwrap_or(store_bytes.max(FIRST_BYTES)).clamp(*MEMTABLE_BYTES.start() as u64, full_bytes)
}

fn larger(bytes: u64, full_bytes: u64) -> u64 {
    bytes.saturating_mul(GROWTH).min(full_bytes)
}

impl Inner {
    /// The next segment, begun, with room for a group of `group_bytes` bytes of batches.
    pub(super) fn begin_segment(&self, first_sequence: u64, group_bytes: usize) -> Result<WalWriter, Error> {
        let full_bytes = self.full_segment_bytes();
        let mut next = self.writes.next_segment.lock();
        let mut segment = match next.ready.take().filter(|ready| ready.will_have_room(group_bytes)) {
            Some(ready) => ready,
            None => {
                let bytes =
                    if WalWriter::suffices(next.bytes, group_bytes) { next.bytes } else { full_bytes };
                self.create_segment(next.number, bytes).map_err(|error| self.cannot_go_on(error))?
            }
        };
        match segment.begin(first_sequence, self.writes.secret) {
            Ok(()) => {
                *next = NextSegment::behind(&segment, full_bytes);
                Ok(segment)
            }
            Err(error) if error.is_disk_full() => {
                next.ready = Some(segment);
                Err(self.out_of_room(error))
            }
            Err(error) => Err(self.poison(&error)),
        }
    }

    /// Without a next segment the log cannot be written: the status of the store must say so too.
    fn cannot_go_on(&self, error: Error) -> Error {
        if error.may_pass() { error } else { self.poison(&error) }
    }

    /// Makes the next segment ahead of its use. One that cannot be made is tried again until a writer needs it.
    pub(super) fn prepare_segment(&self) -> Result<(), Error> {
        let mut next = self.writes.next_segment.lock();
        if next.ready.is_none() && self.health.state() != WriteState::Poisoned {
            next.ready = Some(self.create_segment(next.number, next.bytes)?);
        }
        Ok(())
    }

    /// Keeps a segment whose records are in tables as the next one, if none is ready; removes it otherwise.
    pub(super) fn retire_segment(&self, number: u64) {
        // Otherwise, in a store that never syncs its log, every segment would stay open and keep its space on the disk.
        self.writes.unsynced.lock().remove(&number);
        if self.upkeep.kept_log.is_some() {
            // It has another name, so it is not written to again.
            self.release_segment(number);
            return;
        }
        let mut next = self.writes.next_segment.lock();
        if next.ready.is_none() {
            match WalWriter::recycle(&*self.env.disk, &self.dir, number, next.number, next.bytes) {
                Ok(Some(segment)) => {
                    next.ready = Some(segment);
                    return;
                }
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "could not reuse a segment of the write-ahead log"),
            }
        }
        drop(next);
        self.remove_segment(number);
    }

    /// Keeps a segment whose records are about to be in tables, if the store keeps its log. If that is not possible, the log that
    /// is kept has a gap, and everything else goes on.
    pub(super) fn keep_segment(
        &self,
        number: u64,
        end_sequence: u64,
        larges: impl FnOnce() -> BTreeSet<u64>,
    ) {
        let Some(kept) = &self.upkeep.kept_log else { return };
        if let Err(error) = kept.keep(number, end_sequence, &larges()) {
            kept.note_gap();
            tracing::warn!(segment = number, %error, "could not keep a segment of the log");
        }
    }

    fn create_segment(&self, number: u64, bytes: u64) -> Result<WalWriter, Error> {
        let create = || WalWriter::create(&*self.env.disk, &self.dir, number, bytes);
        let created = match create() {
            // Not every bound on space shows in what is free.
            Err(error) if error.is_disk_full() && self.remove_kept_log() => create(),
            created => created,
        };
        created.map_err(|error| self.out_of_room(error))
    }

    /// Removes a segment whose records are in tables; what keeps it keeps no more of it than its groups.
    pub(super) fn release_segment(&self, number: u64) {
        self.remove_segment(number);
        if let Some(kept) = &self.upkeep.kept_log {
            kept.shorten(number);
        }
    }

    /// Removes all log that is kept, so that a full disk has room; false if there was none.
    pub(super) fn remove_kept_log(&self) -> bool {
        self.upkeep.kept_log.as_ref().is_some_and(|kept| kept.remove_all())
    }

    /// A segment has all that a memtable has.
    const fn full_segment_bytes(&self) -> u64 {
        self.budget.memtable_bytes as u64
    }
}
