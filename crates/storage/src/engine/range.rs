use bytes::Bytes;

use super::Snapshot;
use crate::error::Error;
use crate::iterator::{Merge, Source};
use crate::record::{Kind, Record};
use crate::value::{Cell, Value, value_of};

/// The records of a key range in a snapshot, from both ends. May wait for the disk.
pub struct Range {
    snapshot: Snapshot,
    /// Cells that had expired by this time are left out, as deleted ones are.
    live_at_ms: u64,
    /// Inclusive; moves up as records are taken from the front.
    start: Vec<u8>,
    /// Exclusive; moves down as records are taken from the back.
    end: Option<Vec<u8>>,
    front: Option<Merge>,
    back: Option<Merge>,
    /// Records since the snapshot last let go of memtables.
    since_refresh: u32,
}

/// How many records are read between two looks whether memtables have become tables.
const REFRESH_RECORDS: u32 = 256;

impl Range {
    pub(crate) fn new(snapshot: Snapshot, start: &[u8], end: Option<&[u8]>) -> Range {
        let end = end.map(<[u8]>::to_vec);
        let start = start.to_vec();
        Range { snapshot, live_at_ms: 0, start, end, front: None, back: None, since_refresh: 0 }
    }

    /// Leaves out the records that have expired by this time, in milliseconds since 1970; without it, none has.
    #[must_use]
    pub fn live_at_ms(self, now_ms: u64) -> Range {
        Range { live_at_ms: now_ms, ..self }
    }

    fn is_inside(&self, key: &[u8]) -> bool {
        self.start.as_slice() <= key && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// The next record from the front. After an error the range cannot go on.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator of results would hide that it ends at an error"
    )]
    pub fn next(&mut self) -> Result<Option<(Bytes, Value)>, Error> {
        let found = self.take_front(true)?;
        Ok(found.and_then(|(key, cell)| Some((key, cell.value?))))
    }

    /// The next cell from the front, deletions and expired values included.
    pub fn next_cell(&mut self) -> Result<Option<(Bytes, Cell)>, Error> {
        self.take_front(false)
    }

    fn take_front(&mut self, live: bool) -> Result<Option<(Bytes, Cell)>, Error> {
        self.maybe_refresh();
        let mut front = match self.front.take() {
            Some(front) => front,
            None => Merge::forward(self.snapshot.sources(), &self.start)?,
        };
        let found = self.take(&mut front, live)?;
        if let Some((key, _)) = &found {
            self.start.clear();
            self.start.extend_from_slice(key);
            self.start.push(0);
        }
        self.front = Some(front);
        Ok(found)
    }

    /// The next record from the back.
    pub fn next_back(&mut self) -> Result<Option<(Bytes, Value)>, Error> {
        self.maybe_refresh();
        let mut back = match self.back.take() {
            Some(back) => back,
            None => Merge::backward(self.snapshot.sources(), self.end.as_deref())?,
        };
        let found = self.take(&mut back, true)?;
        if let Some((key, _)) = &found {
            self.end = Some(key.to_vec());
        }
        self.back = Some(back);
        Ok(found.and_then(|(key, cell)| Some((key, cell.value?))))
    }

    fn maybe_refresh(&mut self) {
        self.since_refresh += 1;
        if self.since_refresh < REFRESH_RECORDS {
            return;
        }
        self.since_refresh = 0;
        if self.snapshot.refresh() {
            // Both cursors are made anew, for what is left of the range.
            (self.front, self.back) = (None, None);
        }
    }

    /// The current cell, or the next one that is live, if only those are wanted.
    fn take(&self, merge: &mut Merge, live: bool) -> Result<Option<(Bytes, Cell)>, Error> {
        loop {
            self.snapshot.check()?;
            let Some((record, source)) = merge.current()? else { return Ok(None) };
            if !self.is_inside(record.key) {
                return Ok(None);
            }
            let is_left_out = live && !self.is_live(&record);
            let found = if is_left_out { None } else { Some(cell_of(&record, source)?) };
            merge.advance()?;
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    fn is_live(&self, record: &Record<'_>) -> bool {
        record.kind != Kind::Tombstone && !record.stamp.is_expired(self.live_at_ms)
    }
}

fn cell_of(record: &Record<'_>, source: &Source) -> Result<(Bytes, Cell), Error> {
    let value = match record.kind {
        Kind::Tombstone => None,
        Kind::Value | Kind::Blob => Some(value_of(record, |number| source.blob_ref(number))?),
    };
    Ok((Bytes::copy_from_slice(record.key), Cell { stamp: record.stamp, value }))
}
