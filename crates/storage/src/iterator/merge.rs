use std::cmp::Ordering;

use ladoga_model::Version;

use super::Source;
use crate::error::Error;
use crate::record::Record;
use crate::table::{LONG_BLOCK_BYTES, TableCursor};

/// Merges sources into one sequence in which each key appears once, in its newest version.
///
/// Looks at every source for every record: there are about ten, and their current keys are in cache, which beats
/// keeping a heap in order.
pub(crate) struct Merge {
    sources: Vec<Source>,
    forward: bool,
    /// The source with the current record.
    winner: Option<usize>,
    /// Whether the current record is used, so that the next one is wanted.
    is_taken: bool,
    /// What is held of blocks beside the one with the current record. Blocks with a long value, of up to 256 KiB each, are let go of
    /// until it is their turn if they are more.
    held_bytes_max: usize,
}

impl Merge {
    /// Begins at the first key at or behind `start`. Holds about so many bytes of blocks.
    pub(crate) fn forward(sources: Vec<Source>, start: &[u8], held_bytes_max: usize) -> Result<Merge, Error> {
        Merge::begin(sources, true, held_bytes_max, |source| source.seek(start))
    }

    /// Begins at the last key before `end`, or of all, and goes backward.
    pub(crate) fn backward(
        sources: Vec<Source>,
        end: Option<&[u8]>,
        held_bytes_max: usize,
    ) -> Result<Merge, Error> {
        Merge::begin(sources, false, held_bytes_max, |source| source.seek_before(end))
    }

    fn begin(
        sources: Vec<Source>,
        forward: bool,
        held_bytes_max: usize,
        seek: impl Fn(&mut Source) -> Result<(), Error>,
    ) -> Result<Merge, Error> {
        let mut merge = Merge { sources, forward, winner: None, is_taken: false, held_bytes_max };
        for index in 0..merge.sources.len() {
            seek(&mut merge.sources[index])?;
            merge.hold_less()?;
        }
        merge.choose()?;
        Ok(merge)
    }

    /// The current record and its source; `None` at the end.
    pub(crate) fn current(&self) -> Result<Option<(Record<'_>, &Source)>, Error> {
        let Some(winner) = self.winner else { return Ok(None) };
        let source = &self.sources[winner];
        Ok(source.record()?.map(|record| (record, source)))
    }

    /// The current record is used. [`Merge::go_on`] has to come before the next look at one: until then, nothing more is read.
    pub(crate) const fn take(&mut self) {
        self.is_taken = true;
    }

    /// To the record that is next, if the current one is used; loads it if it was let go of.
    #[inline]
    pub(crate) fn go_on(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_taken) { self.advance() } else { self.load() }
    }

    /// Nobody wants a record for a while: long blocks are let go of. [`Merge::go_on`] comes before the next look at a record.
    pub(crate) fn rest(&mut self) -> Result<(), Error> {
        if let Some(cursor) = self.winner.and_then(|winner| self.sources[winner].table_cursor_mut()) {
            cursor.let_go()?;
        }
        Ok(())
    }

    /// To the next key, past all versions of the current one.
    pub(crate) fn advance(&mut self) -> Result<(), Error> {
        let Some(winner) = self.winner else { return Ok(()) };
        let (before, rest) = self.sources.split_at_mut(winner);
        let (current, after) = rest.split_first_mut().expect("the winner is a source");
        let mut is_long = false;
        if let Some((key, _)) = current.head()? {
            for other in before.iter_mut().chain(after) {
                if other.head()?.is_some_and(|(other, _)| other == key) {
                    other.step(self.forward)?;
                    is_long |= has_long_block(other);
                }
            }
        }
        current.step(self.forward)?;
        is_long |= has_long_block(current);
        self.choose()?;
        if is_long { self.hold_less() } else { Ok(()) }
    }

    fn choose(&mut self) -> Result<(), Error> {
        let mut best: Option<(usize, &[u8], Version)> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some((key, version)) = source.head()? else { continue };
            let better = best.as_ref().is_none_or(|(_, best_key, best_version)| {
                let order = if self.forward { key.cmp(best_key) } else { (*best_key).cmp(key) };
                match order {
                    Ordering::Less => true,
                    Ordering::Equal => version > *best_version,
                    Ordering::Greater => false,
                }
            });
            if better {
                best = Some((index, key, version));
            }
        }
        self.winner = best.map(|(index, ..)| index);
        self.load()
    }

    /// Loads the current record if it was let go of.
    #[inline]
    fn load(&mut self) -> Result<(), Error> {
        match self.winner.and_then(|winner| self.sources[winner].table_cursor_mut()) {
            Some(cursor) => cursor.load(),
            None => Ok(()),
        }
    }

    /// Lets go of long blocks, except that with the current record, if all are more than may be held.
    fn hold_less(&mut self) -> Result<(), Error> {
        let held_bytes: usize = self.other_cursors().map(|cursor| cursor.held_bytes()).sum();
        if held_bytes > self.held_bytes_max {
            self.other_cursors().try_for_each(TableCursor::let_go)?;
        }
        Ok(())
    }

    /// What it holds of blocks.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.sources.iter().filter_map(Source::table_cursor).map(TableCursor::held_bytes).sum()
    }

    /// The walks through tables that are not at the current record.
    fn other_cursors(&mut self) -> impl Iterator<Item = &mut TableCursor> {
        let winner = self.winner;
        let others = self.sources.iter_mut().enumerate().filter(move |(index, _)| Some(*index) != winner);
        others.filter_map(|(_, source)| source.table_cursor_mut())
    }
}

#[inline]
fn has_long_block(source: &Source) -> bool {
    source.table_cursor().is_some_and(|cursor| cursor.held_bytes() > LONG_BLOCK_BYTES)
}
