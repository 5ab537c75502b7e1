use std::cmp::Ordering;

use super::Source;
use crate::error::Error;
use crate::record::Record;

/// Merges sources into one sequence in which each key appears once, in its newest version.
///
/// Looks at every source for every record: there are about ten, and their current keys are in cache, which beats
/// keeping a heap in order.
pub(crate) struct Merge {
    sources: Vec<Source>,
    forward: bool,
    /// The source with the current record.
    winner: Option<usize>,
}

impl Merge {
    /// Begins at the first key at or behind `start`.
    pub(crate) fn forward(mut sources: Vec<Source>, start: &[u8]) -> Result<Merge, Error> {
        for source in &mut sources {
            source.seek(start)?;
        }
        let mut merge = Merge { sources, forward: true, winner: None };
        merge.choose()?;
        Ok(merge)
    }

    /// Begins at the last key before `end`, or of all, and goes backward.
    pub(crate) fn backward(mut sources: Vec<Source>, end: Option<&[u8]>) -> Result<Merge, Error> {
        for source in &mut sources {
            source.seek_before(end)?;
        }
        let mut merge = Merge { sources, forward: false, winner: None };
        merge.choose()?;
        Ok(merge)
    }

    /// The current record and its source; `None` at the end.
    pub(crate) fn current(&self) -> Result<Option<(Record<'_>, &Source)>, Error> {
        let Some(winner) = self.winner else { return Ok(None) };
        let source = &self.sources[winner];
        Ok(source.record()?.map(|record| (record, source)))
    }

    /// To the next key, past all versions of the current one.
    pub(crate) fn advance(&mut self) -> Result<(), Error> {
        let Some(winner) = self.winner else { return Ok(()) };
        let (before, rest) = self.sources.split_at_mut(winner);
        let (current, after) = rest.split_first_mut().expect("the winner is a source");
        if let Some(record) = current.record()? {
            for other in before.iter_mut().chain(after) {
                if other.record()?.is_some_and(|other| other.key == record.key) {
                    other.step(self.forward)?;
                }
            }
        }
        current.step(self.forward)?;
        self.choose()
    }

    fn choose(&mut self) -> Result<(), Error> {
        let mut best: Option<(usize, Record<'_>)> = None;
        for (index, source) in self.sources.iter().enumerate() {
            let Some(record) = source.record()? else { continue };
            let better = best.as_ref().is_none_or(|(_, best)| {
                let order = if self.forward { record.key.cmp(best.key) } else { best.key.cmp(record.key) };
                match order {
                    Ordering::Less => true,
                    Ordering::Equal => record.stamp.version > best.stamp.version,
                    Ordering::Greater => false,
                }
            });
            if better {
                best = Some((index, record));
            }
        }
        self.winner = best.map(|(index, _)| index);
        Ok(())
    }
}
