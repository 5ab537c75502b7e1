//! What a copy of a store consists of, apart from the bytes of its files: enough to make a store of those files again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ladoga_env::{Disk, Rng};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::frame::LogId;
use crate::levels::{Edit, Manifest, Recovered};
use crate::paths;
use crate::table::TableMeta;

/// The tables of a copy, by level. No log belongs to it: all that was in a memtable is in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableList {
    everything: Edit,
}

/// A file of a store that never changes once a table list names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoreFile {
    /// A table, by its number.
    Table(u64),
    /// A large value, by its number.
    Blob(u64),
}

impl StoreFile {
    /// Where it is in a data directory, such as `tables/000012.sst`.
    pub fn path(self) -> PathBuf {
        match self {
            StoreFile::Table(number) => paths::table(Path::new(""), number),
            StoreFile::Blob(number) => paths::blob(Path::new(""), number),
        }
    }

    /// The file that such a path names; `None` if it names none. So no other path passes.
    pub fn parse(path: &str) -> Option<StoreFile> {
        let (dir, name) = path.split_once('/')?;
        let file = match dir {
            "tables" => StoreFile::Table(paths::parse(name, "", ".sst")?),
            "blobs" => StoreFile::Blob(paths::parse(name, "", ".blob")?),
            _ => return None,
        };
        // `0000012.sst` has a number, and is not its name.
        (file.path() == Path::new(path)).then_some(file)
    }
}

impl TableList {
    pub(crate) const fn of(everything: Edit) -> TableList {
        TableList { everything }
    }

    /// As bytes, which [`TableList::decode`] understands.
    pub fn encode(&self) -> Vec<u8> {
        self.everything.encode()
    }

    /// `None` if the bytes are no table list, or one that does not fit together.
    pub fn decode(bytes: &[u8]) -> Option<TableList> {
        let everything = Edit::decode(bytes)?;
        let next_file = everything.next_file?;
        let is_whole = everything.first_wal == Some(1)
            && everything.first_sequence == Some(1)
            && !everything.log_begun
            && everything.removed.is_empty()
            && everything.dropped_up_to.is_none();
        let list = TableList { everything };
        let numbers = list.files().into_iter().map(|(file, _)| match file {
            StoreFile::Table(number) | StoreFile::Blob(number) => number,
        });
        // The last number is that of the manifest.
        let has_room = next_file >= 2 && numbers.max().unwrap_or(0) + 1 < next_file;
        (is_whole && has_room && list.recovered().is_some()).then_some(list)
    }

    pub(crate) fn recovered(&self) -> Option<Recovered> {
        Recovered::of(self.everything.clone())
    }

    /// Every file, once, and the level of those that are tables. The blobs of a table come before it.
    pub fn files(&self) -> Vec<(StoreFile, Option<usize>)> {
        let (mut files, mut blobs) = (Vec::new(), BTreeSet::new());
        for (level, meta) in &self.everything.added {
            let new = meta.blobs.iter().filter(|&&blob| blobs.insert(blob));
            files.extend(new.map(|&blob| (StoreFile::Blob(blob), None)));
            files.push((StoreFile::Table(meta.number), Some(*level)));
        }
        files
    }

    /// The tables, each with the numbers of the blobs that it names.
    pub fn tables(&self) -> impl Iterator<Item = (u64, &[u64])> {
        self.everything.added.iter().map(|(_, meta)| (meta.number, &meta.blobs[..]))
    }

    pub(crate) fn table_meta(&self, number: u64) -> Option<&TableMeta> {
        self.everything.added.iter().map(|(_, meta)| meta).find(|meta| meta.number == number)
    }

    /// The length that a table must have.
    pub fn table_bytes(&self, number: u64) -> Option<u64> {
        self.table_meta(number).map(|meta| meta.file_bytes)
    }

    /// Stands for what the list says of a table: its keys, versions and counts.
    pub fn table_fingerprint(&self, number: u64) -> Option<u64> {
        let mut bytes = Vec::new();
        self.table_meta(number)?.encode(&mut bytes);
        Some(xxh3_64(&bytes))
    }

    /// How many records the tables have, deletions and replaced ones included.
    pub fn records(&self) -> u64 {
        self.everything.added.iter().map(|(_, meta)| meta.records).fold(0, u64::saturating_add)
    }

    /// The newest timestamp that a cell of the tables has; 0 if there is no cell.
    pub fn newest(&self) -> u64 {
        self.everything.added.iter().map(|(_, meta)| meta.newest.timestamp).max().unwrap_or(0)
    }

    /// Makes `dir`, in which all the files are, a store: until this has returned it opens as none. Its logs are checked with a
    /// secret of its own, so two stores from one copy tell their logs apart.
    pub fn install(&self, disk: &dyn Disk, rng: &dyn Rng, dir: &Path) -> Result<(), Error> {
        let number = self.everything.next_file.expect("a list has it").saturating_sub(1);
        for dir in [paths::wal_dir(dir), paths::tables_dir(dir), paths::blobs_dir(dir)] {
            disk.create_dir_all(&dir).map_err(Error::io("create directory", &dir))?;
            disk.sync_dir(&dir).map_err(Error::io("sync directory", &dir))?;
        }
        Manifest::create(disk, dir, LogId { number, secret: Some(rng.next_u64()) }, &self.everything)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_that_of_one_file_or_of_none() {
        for file in [StoreFile::Table(12), StoreFile::Blob(1_234_567)] {
            assert_eq!(StoreFile::parse(file.path().to_str().expect("text")), Some(file));
        }
        for path in [
            "",
            "tables",
            "tables/",
            "tables/12.sst",
            "tables/0000012.sst",
            "tables/000012.blob",
            "blobs/000012.sst",
            "wal/000001.wal",
            "tables/../CURRENT",
            "/tables/000012.sst",
            "./tables/000012.sst",
            "tables//000012.sst",
            "tables/000012.sst/",
            "../tables/000012.sst",
            "tables/000012.sst\0",
        ] {
            assert_eq!(StoreFile::parse(path), None, "{path}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_no_list() {
        let edit =
            |next_file| Edit { next_file, first_wal: Some(1), first_sequence: Some(1), ..Edit::default() };
        assert!(TableList::decode(&edit(Some(3)).encode()).is_some());
        assert!(TableList::decode(&edit(None).encode()).is_none());
        assert!(TableList::decode(&edit(Some(1)).encode()).is_none());
        assert!(TableList::decode(&Edit { log_begun: true, ..edit(Some(3)) }.encode()).is_none());
        assert!(TableList::decode(&Edit { removed: vec![1], ..edit(Some(3)) }.encode()).is_none());
        assert!(TableList::decode(&Edit { dropped_up_to: Some(1), ..edit(Some(3)) }.encode()).is_none());
        assert!(TableList::decode(b"nonsense").is_none());
    }
}
