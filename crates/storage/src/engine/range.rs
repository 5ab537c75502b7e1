use std::sync::{Arc, Weak};

use bytes::Bytes;

use super::snapshot::Resting;
use super::{Snapshot, View};
use crate::error::Error;
use crate::iterator::{Merge, Source};
use crate::record::{Kind, Record};
use crate::value::{Cell, Value, large_value};

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
    /// What these go through.
    view: Weak<View>,
    /// Where they are while nobody asks for more.
    resting: Option<Arc<Resting>>,
    /// Records since the snapshot last let go of memtables.
    since_refresh: u32,
}

/// From which end of a range its records are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// In the order of the keys.
    Front,
    /// Against it.
    Back,
}

/// What a bounded look for the next cell comes to.
pub enum RangeStep {
    /// A key and its newest cell.
    Found(Bytes, Cell),
    /// The bound was reached first; the next step goes on from there.
    NotYet,
    /// There is none left.
    End,
}

/// How many records are read between two looks whether memtables have become tables.
const REFRESH_RECORDS: u32 = 256;
/// How many are looked at in vain before memtables that have become tables are let go of.
const LOOKS_AT_ONCE: u32 = 16 << 10;
/// A cell with a long value counts for one more look for each so many bytes of it: they come from the disk with the cell.
const LOOK_BYTES: usize = 1 << 10;

impl Range {
    pub(crate) fn new(snapshot: Snapshot, start: &[u8], end: Option<&[u8]>) -> Range {
        let end = end.map(<[u8]>::to_vec);
        let start = start.to_vec();
        let (view, resting) = (Weak::new(), None);
        Range {
            snapshot,
            live_at_ms: 0,
            start,
            end,
            front: None,
            back: None,
            view,
            resting,
            since_refresh: REFRESH_RECORDS,
        }
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
        self.next_record(Side::Front)
    }

    /// The next record from the back.
    pub fn next_back(&mut self) -> Result<Option<(Bytes, Value)>, Error> {
        self.next_record(Side::Back)
    }

    /// The next cell from the front, deletions and what has expired included.
    pub fn next_cell(&mut self) -> Result<Option<(Bytes, Cell)>, Error> {
        self.next_cell_from(Side::Front)
    }

    /// The same from either side.
    pub fn next_cell_from(&mut self, side: Side) -> Result<Option<(Bytes, Cell)>, Error> {
        Ok(match self.take(side, false, &mut 1)? {
            RangeStep::Found(key, cell) => Some((key, cell)),
            // The first cell that it looks at is one that is wanted.
            RangeStep::NotYet | RangeStep::End => None,
        })
    }

    /// The next cell that has a value and has not expired. Looks at no more than `looks` cells, each KiB of a value counting for
    /// one more, and takes off `looks` what it used: a range may begin with a million deletions, or with long values that have
    /// expired.
    pub fn step(&mut self, side: Side, looks: &mut u32) -> Result<RangeStep, Error> {
        self.take(side, true, looks)
    }

    /// Nobody asks for a while, such as a client that reads slowly: what is large and can be read again is let go of, and all of it
    /// as soon as the snapshot is given up.
    pub fn rest(&mut self) -> Result<(), Error> {
        self.front.iter_mut().chain(&mut self.back).try_for_each(Merge::rest)?;
        if self.resting.is_none() {
            self.resting = Some(self.snapshot.rest([self.front.take(), self.back.take()]));
            self.since_refresh = REFRESH_RECORDS;
        }
        Ok(())
    }

    /// What it holds of blocks.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let held_bytes = |cursors: &[&Option<Merge>]| -> usize {
            cursors.iter().copied().flatten().map(Merge::held_bytes).sum()
        };
        let resting = self.resting.as_ref().map(|resting| held_bytes(&resting.lock().each_ref()));
        held_bytes(&[&self.front, &self.back]) + resting.unwrap_or(0)
    }

    fn next_record(&mut self, side: Side) -> Result<Option<(Bytes, Value)>, Error> {
        loop {
            let mut looks = LOOKS_AT_ONCE;
            match self.take(side, true, &mut looks)? {
                RangeStep::Found(key, cell) => return Ok(cell.value.map(|value| (key, value))),
                RangeStep::NotYet => {}
                RangeStep::End => return Ok(None),
            }
        }
    }

    fn take(&mut self, side: Side, is_live: bool, looks: &mut u32) -> Result<RangeStep, Error> {
        self.maybe_refresh()?;
        let held_bytes = self.snapshot.held_bytes_max();
        let mut merge = match (side, self.place(side).take()) {
            (_, Some(merge)) => merge,
            (Side::Front, None) => Merge::forward(self.snapshot.sources()?, &self.start, held_bytes)?,
            (Side::Back, None) => Merge::backward(self.snapshot.sources()?, self.end.as_deref(), held_bytes)?,
        };
        let step = self.look(&mut merge, is_live, looks)?;
        match &step {
            RangeStep::Found(key, _) => self.move_past(side, key),
            RangeStep::NotYet => {
                if let Some((record, _)) = merge.current()? {
                    self.move_to(side, record.key);
                }
                // What was looked at in vain counts as much as what was found.
                self.since_refresh = REFRESH_RECORDS;
            }
            RangeStep::End => {}
        }
        *self.place(side) = Some(merge);
        Ok(step)
    }

    const fn place(&mut self, side: Side) -> &mut Option<Merge> {
        match side {
            Side::Front => &mut self.front,
            Side::Back => &mut self.back,
        }
    }

    /// Leaves out what has been taken, up to this key.
    fn move_past(&mut self, side: Side, key: &[u8]) {
        match side {
            Side::Front => set_behind(&mut self.start, key),
            Side::Back => self.end = Some(key.to_vec()),
        }
    }

    /// Leaves out what comes before this key, which is the next.
    fn move_to(&mut self, side: Side, key: &[u8]) {
        match side {
            Side::Front => {
                self.start.clear();
                self.start.extend_from_slice(key);
            }
            Side::Back => set_behind(self.end.get_or_insert_default(), key),
        }
    }

    fn maybe_refresh(&mut self) -> Result<(), Error> {
        self.since_refresh = self.since_refresh.saturating_add(1);
        if self.since_refresh < REFRESH_RECORDS {
            return Ok(());
        }
        self.since_refresh = 0;
        if let Some(resting) = self.resting.take() {
            [self.front, self.back] = std::mem::take(&mut *resting.lock());
        }
        let view = self.snapshot.refresh()?;
        if !std::ptr::eq(self.view.as_ptr(), Arc::as_ptr(&view)) {
            // Both cursors are made anew, for what is left of the range.
            (self.front, self.back) = (None, None);
            self.view = Arc::downgrade(&view);
        }
        Ok(())
    }

    /// The current cell, or the next one that is live, if only those are wanted.
    fn look(&self, merge: &mut Merge, is_live: bool, looks: &mut u32) -> Result<RangeStep, Error> {
        loop {
            self.snapshot.check()?;
            merge.go_on()?;
            let Some((record, source)) = merge.current()? else { return Ok(RangeStep::End) };
            if !self.is_inside(record.key) {
                return Ok(RangeStep::End);
            }
            let Some(left) = looks.checked_sub(1) else { return Ok(RangeStep::NotYet) };
            *looks = left.saturating_sub((record.value.len() / LOOK_BYTES) as u32);
            let is_left_out = is_live && !self.is_live(&record);
            let found = if is_left_out { None } else { Some(cell_of(&record, source)?) };
            merge.take();
            if let Some((key, cell)) = found {
                return Ok(RangeStep::Found(key, cell));
            }
        }
    }

    fn is_live(&self, record: &Record<'_>) -> bool {
        record.kind != Kind::Tombstone && !record.stamp.is_expired(self.live_at_ms)
    }
}

/// The first key behind `key`.
fn set_behind(bound: &mut Vec<u8>, key: &[u8]) {
    bound.clear();
    bound.extend_from_slice(key);
    bound.push(0);
}

/// A record as its readers have it.
pub(crate) fn cell_of(record: &Record<'_>, source: &Source) -> Result<(Bytes, Cell), Error> {
    let value = match record.kind {
        Kind::Tombstone => None,
        Kind::Value => Some(Value::Inline(source.keep(record.value))),
        Kind::Blob => Some(large_value(record.value, |number| source.blob_ref(number))?),
    };
    Ok((Bytes::copy_from_slice(record.key), Cell { stamp: record.stamp, value }))
}
