use std::path::PathBuf;
use std::sync::Arc;

use ladoga_env::File;

use super::Inner;
use crate::error::Error;
use crate::health::WriteState;
use crate::wal::WalWriter;

/// A segment's file, and where it is.
pub(super) type SegmentFile = (PathBuf, Arc<dyn File>);

/// The segments that come next. Locked while one is made, so that no number is used twice.
pub(super) struct NextSegment {
    pub number: u64,
    /// Made ahead.
    pub ready: Option<WalWriter>,
}

impl Inner {
    /// The next segment, begun.
    pub(super) fn begin_segment(&self, first_sequence: u64) -> Result<WalWriter, Error> {
        let mut next = self.writes.next_segment.lock();
        let mut segment = match next.ready.take() {
            Some(ready) => ready,
            None => self.create_segment(next.number).map_err(|error| self.cannot_go_on(error))?,
        };
        match segment.begin(first_sequence, self.writes.secret) {
            Ok(()) => {
                next.number += 1;
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
            next.ready = Some(self.create_segment(next.number)?);
        }
        Ok(())
    }

    /// Keeps a segment whose records are in tables as the next one, if none is ready; removes it otherwise.
    pub(super) fn retire_segment(&self, number: u64) {
        // Otherwise, in a store that never syncs its log, every segment would stay open and keep its space on the disk.
        self.writes.unsynced.lock().remove(&number);
        let mut next = self.writes.next_segment.lock();
        if next.ready.is_none() {
            let capacity = self.budget.memtable_bytes as u64;
            match WalWriter::recycle(&*self.env.disk, &self.dir, number, next.number, capacity) {
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

    fn create_segment(&self, number: u64) -> Result<WalWriter, Error> {
        let capacity = self.budget.memtable_bytes as u64;
        WalWriter::create(&*self.env.disk, &self.dir, number, capacity)
            .map_err(|error| self.out_of_room(error))
    }
}
