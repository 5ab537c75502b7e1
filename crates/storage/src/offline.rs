//! The files of a copy, read where they are: nothing is opened for writing, locked, or removed.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_env::Disk;

use crate::blob::{Blob, BlobRegistry, file_bytes};
use crate::check::{CheckReport, LargeCheck, check_table};
use crate::engine::{cell_of, levels_of};
use crate::error::Error;
use crate::iterator::{Merge, Source};
use crate::levels::Levels;
use crate::record::BlobPointer;
use crate::segment_reader::LargeValue;
use crate::stats::Counters;
use crate::table::{BlockCache, Table, TableShared};
use crate::table_list::TableList;
use crate::value::Cell;

/// Blocks that are read once are not kept.
const CACHE_BYTES: u64 = 1 << 20;

/// A copy of a store.
pub struct OfflineStore {
    levels: Levels,
}

/// The newest cell of every key, in the order of the keys; deletions and what has expired included.
pub struct OfflineCells {
    merge: Merge,
}

impl OfflineStore {
    /// The copy whose files `disk` shows in `dir`, by the names that they have in a data directory. No file is opened yet.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, list: &TableList) -> Result<OfflineStore, Error> {
        let recovered = list.recovered().expect("checked when the list was decoded");
        Ok(OfflineStore { levels: levels_of(dir, &recovered, &share(disk, dir))? })
    }

    /// Verifies every checksum and every rule of a table of a copy, and of each large value it names what is `wanted`. Answers
    /// everything that is wrong.
    ///
    /// # Panics
    /// If the list has no such table.
    pub fn check_table(
        disk: Arc<dyn Disk>,
        dir: &Path,
        list: &TableList,
        number: u64,
        wanted: &mut dyn FnMut(LargeValue) -> LargeCheck,
    ) -> Vec<Error> {
        let meta = list.table_meta(number).expect("callers ask for tables of the list");
        let table = Table::new(&share(disk, dir), meta.clone());
        let mut report = CheckReport::default();
        let checked = check_table(&table, wanted, &mut report);
        report.errors.extend(checked.err());
        report.errors
    }

    /// A large value whose file `disk` shows in `dir`, by the name that it has in a data directory. Nothing is opened yet.
    pub fn large_value(disk: Arc<dyn Disk>, dir: &Path, large: LargeValue) -> Blob {
        let pointer = BlobPointer { file: large.file, len: large.bytes, crc: large.crc };
        Blob::new(share(disk, dir).blobs.refer(large.file), pointer)
    }

    /// How long the file of such a value is.
    pub const fn large_file_bytes(large: LargeValue) -> u64 {
        file_bytes(large.bytes)
    }

    /// Verifies all of it.
    pub fn check_large_value(disk: Arc<dyn Disk>, dir: &Path, large: LargeValue) -> Result<(), Error> {
        OfflineStore::large_value(disk, dir, large).verify()
    }

    /// The cells. May wait for the disk. However large the copy is, the files that are open are a table of each level, and those of
    /// level 0.
    pub fn cells(self) -> Result<OfflineCells, Error> {
        let mut sources = Vec::new();
        self.levels.add_sources(&mut sources, |_| true);
        drop(self);
        for source in &mut sources {
            if let Source::Level(cursor) = source {
                cursor.forget_behind();
            }
        }
        Ok(OfflineCells { merge: Merge::forward(sources, b"", usize::MAX)? })
    }
}

fn share(disk: Arc<dyn Disk>, dir: &Path) -> Arc<TableShared> {
    let counters = Arc::new(Counters::default());
    let blobs = BlobRegistry::new(Arc::clone(&disk), dir.to_path_buf(), 0, Arc::clone(&counters));
    // Nothing may be removed when the references go.
    blobs.freeze();
    let cache = BlockCache::new(CACHE_BYTES, 0);
    Arc::new(TableShared { disk, dir: dir.to_path_buf(), cache, counters, blobs })
}

impl OfflineCells {
    /// The next key and its newest cell; `None` at the end. After an error it cannot go on.
    pub fn next_cell(&mut self) -> Result<Option<(Bytes, Cell)>, Error> {
        let Some((record, source)) = self.merge.current()? else { return Ok(None) };
        let found = cell_of(&record, source)?;
        self.merge.advance()?;
        Ok(Some(found))
    }
}
