use std::sync::Arc;
use std::{fmt, io};

use ladoga_env::FilePart;
use ladoga_model::Version;

use super::Inner;
use super::search::{NeededTable, Search};
use crate::error::Error;
use crate::levels::Levels;
use crate::table::{Access, MissingBlock};
use crate::value::Cell;

/// A point read that needs bytes which are not in memory. Its holder reads them and hands them to [`PendingRead::resume`], or
/// lets it wait for the disk itself.
///
/// It holds on to the tables that it looks at, so a compaction does not make it begin again: it pauses at most once for each
/// table, whatever the caches evict in between.
pub struct PendingRead {
    inner: Arc<Inner>,
    /// The tables as they were when the read began. Not the memtables: those have been asked.
    levels: Arc<Levels>,
    key: Box<[u8]>,
    start: Start,
    search: Search,
    needed: NeededTable,
}

/// What a point read knows before it asks tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) hash: u64,
    /// Of the record cache, when the read began.
    pub(super) generation: u64,
    /// The version that memtables have.
    pub(super) in_memory: Version,
}

/// How far a point read has come.
#[derive(Debug)]
pub enum Progress {
    /// The answer: the newest cell of the key, deletions and expired values included.
    Done(Option<Cell>),
    /// To the next bytes that memory does not have.
    Paused(Box<PendingRead>),
}

impl fmt::Debug for PendingRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.needed.table.path();
        f.debug_struct("PendingRead").field("key", &self.key).field("table", table).finish_non_exhaustive()
    }
}

impl PendingRead {
    pub(super) fn new(
        inner: &Arc<Inner>,
        levels: &Arc<Levels>,
        key: &[u8],
        start: Start,
        search: Search,
        needed: NeededTable,
    ) -> Box<PendingRead> {
        let (inner, levels) = (Arc::clone(inner), Arc::clone(levels));
        Box::new(PendingRead { inner, levels, key: key.into(), start, search, needed })
    }

    /// The bytes that it needs. `None` if one read is not enough, because a table's index is not in memory: then it takes
    /// [`PendingRead::finish`].
    pub fn needs(&self) -> Option<FilePart> {
        match &self.needed.lack {
            MissingBlock::Block(part) => Some(part.clone()),
            MissingBlock::Parts => None,
        }
    }

    /// Goes on with the bytes that it [needs](PendingRead::needs), or with why they could not be read. Does not wait.
    ///
    /// # Panics
    /// If it needs more than one read.
    pub fn resume(mut self: Box<Self>, bytes: io::Result<Vec<u8>>) -> Result<Progress, Error> {
        let MissingBlock::Block(part) = &self.needed.lack else { panic!("one read is not enough") };
        let table = &self.needed.table;
        let block = table.accept(part, bytes)?;
        let answer = table.find_in(&block, part.offset, self.start.hash, &self.key)?;
        self.search.take(table, answer);
        self.go_on(Access::Memory)
    }

    /// Goes on to the answer. Waits for the disk.
    pub fn finish(mut self: Box<Self>) -> Result<Option<Cell>, Error> {
        let answer = self.needed.table.get(self.start.hash, &self.key, Access::Disk)?;
        self.search.take(&self.needed.table, answer);
        match self.go_on(Access::Disk)? {
            Progress::Done(cell) => Ok(cell),
            Progress::Paused(_) => unreachable!("a read that may wait for the disk needs nobody"),
        }
    }

    fn go_on(mut self: Box<Self>, access: Access) -> Result<Progress, Error> {
        let needed = self.search.go_on(&self.levels, self.start.hash, &self.key, access)?;
        if let Some(needed) = needed {
            self.needed = needed;
            return Ok(Progress::Paused(self));
        }
        let PendingRead { inner, key, start, search, .. } = *self;
        inner.keep(start, &key, &search.found);
        Ok(Progress::Done(search.found.into_cell()?))
    }
}
