use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::found::Found;
use super::pending::{PendingRead, Start};
use super::search::Search;
use super::{Engine, Inner};
use crate::coding::key_hash;
use crate::error::Error;
use crate::record::Record;
use crate::table::Access;
use crate::value::{Cell, Value};

/// An answer from memory: a value, or a cell.
#[derive(Debug)]
pub enum Cached<T = Value> {
    /// The key has this.
    Found(T),
    /// The key has none.
    Absent,
    /// Memory cannot tell; this read goes on with bytes from the disk.
    NeedsDisk(Box<PendingRead>),
}

/// How far a read goes that does not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadTier {
    /// Our own memory only. The system's page cache is left to the thread that reads from the disk.
    Memory,
    /// The system's page cache too, with a system call for each block that is looked for there.
    PageCache,
}

impl ReadTier {
    const fn access(self) -> Access {
        match self {
            ReadTier::Memory => Access::Memory,
            ReadTier::PageCache => Access::PageCache,
        }
    }
}

/// The outcome of a point read.
enum Newest {
    Found(Found),
    Paused(Box<PendingRead>),
}

impl Newest {
    /// The outcome of a read that may wait for the disk, which is never pending.
    fn whole(self) -> Found {
        match self {
            Newest::Found(found) => found,
            Newest::Paused(_) => unreachable!("a read that may wait for the disk needs nobody"),
        }
    }
}

impl Engine {
    /// The value of `key`, expired or not, if memory can tell. Never waits for the disk.
    #[inline]
    pub fn get_cached(&self, key: &[u8], tier: ReadTier) -> Result<Cached, Error> {
        match self.inner.find_newest(key, tier.access())? {
            Newest::Paused(read) => Ok(Cached::NeedsDisk(read)),
            Newest::Found(found) => Ok(found.into_value()?.map_or(Cached::Absent, Cached::Found)),
        }
    }

    /// The value of `key`, expired or not. May wait for the disk.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        self.inner.find_newest(key, Access::Disk)?.whole().into_value()
    }

    /// The newest cell of `key`, deletions and expired values included, if memory can tell. Never waits for the disk.
    pub fn get_cell_cached(&self, key: &[u8], tier: ReadTier) -> Result<Cached<Cell>, Error> {
        match self.inner.find_newest(key, tier.access())? {
            Newest::Paused(read) => Ok(Cached::NeedsDisk(read)),
            Newest::Found(found) => Ok(found.into_cell()?.map_or(Cached::Absent, Cached::Found)),
        }
    }

    /// The newest cell of `key`, deletions and expired values included. May wait for the disk.
    pub fn get_cell(&self, key: &[u8]) -> Result<Option<Cell>, Error> {
        self.inner.find_newest(key, Access::Disk)?.whole().into_cell()
    }
}

impl Inner {
    /// The newest cell of `key`.
    #[inline]
    fn find_newest(self: &Arc<Self>, key: &[u8], access: Access) -> Result<Newest, Error> {
        // Read before the view is: what is flushed later may be newer than what the view's tables have.
        let generation = self.reads.records.generation();
        let view = self.reads.view.load();
        // Read after the view is: groups that it lacks are whole in memtables that it lacks. A group that is being applied is not
        // seen, so nobody sees a part of it.
        let sequence = self.writes.visible.load(Ordering::Acquire);
        let hash = key_hash(key);
        self.reads.records.prefetch(hash);
        let found = view.find_in_memtables(hash, key, sequence);
        if found.version() >= view.levels.newest_of_all() {
            return Ok(Newest::Found(found));
        }
        if let Some(cached) = self.reads.records.get(hash, key) {
            self.shared.counters.reads.mine().record_hits.add(1);
            return Ok(Newest::Found(found.or_newer(cached)));
        }
        self.shared.counters.reads.mine().record_misses.add(1);
        let start = Start { hash, generation, in_memory: found.version() };
        let mut search = Search::new(found);
        match search.go_on(&view.levels, hash, key, access)? {
            Some(needed) => {
                Ok(Newest::Paused(PendingRead::new(self, &view.levels, key, start, search, needed)))
            }
            None => {
                self.keep(start, key, &search.found);
                Ok(Newest::Found(search.found))
            }
        }
    }

    /// Caches a cell that was found in a table.
    pub(super) fn keep(&self, start: Start, key: &[u8], found: &Found) {
        if let Found::Cell { stamp, kind, value, .. } = found
            && stamp.version > start.in_memory
        {
            let record = Record { key, stamp: *stamp, kind: *kind, value };
            self.reads.records.keep(start.generation, start.hash, &record);
        }
    }
}
