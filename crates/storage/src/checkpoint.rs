//! A copy of a store at one moment, by hard links: takes no space until the two part.

use std::io;
use std::path::{Path, PathBuf};

use ladoga_env::{Disk, OpenMode};

use crate::blob::missing_blob;
use crate::engine::Engine;
use crate::error::Error;
use crate::frame::LogId;
use crate::levels::{Edit, Manifest};
use crate::paths;
use crate::table::missing_table;
use crate::table_list::TableList;

/// A copy that was made.
pub struct Copied {
    /// What it consists of.
    pub tables: TableList,
    /// The first group of the log that may not be in it.
    pub end_sequence: u64,
    /// It may lack deletions with an older timestamp, as far as this process has dropped them, and no others.
    pub dropped_before: u64,
}

impl Engine {
    /// Makes `target` a store of its own with everything that was written before the call. `target` must not exist, or
    /// be empty but for `checkpoints` and the mark of a restore, and lie in the same file system. A copy that failed is left without its
    /// `CURRENT`: it opens as nothing.
    /// Answers what the copy consists of.
    pub fn checkpoint(&self, target: &Path) -> Result<TableList, Error> {
        self.checkpoint_within_log(target).map(|copied| copied.tables)
    }

    /// The same. Answers also where the copy ends in the log, and which deletions it may lack.
    pub fn checkpoint_within_log(&self, target: &Path) -> Result<Copied, Error> {
        self.check_open()?;
        self.inner().check_writable()?;
        let disk = &*self.inner().env.disk;
        begin(disk, target)?;
        let end_sequence = self.inner().flush_all()?;
        let dir = self.inner().dir();
        let view = self.inner().current_levels();
        // Behind the view: no compaction whose tables are in it had a later time. What is dropped while the links are made is not
        // dropped from the copy.
        let dropped_before = self.inner().drop_before();
        let mut added = Vec::new();
        let mut next_file = 2;
        for (level, table) in view.iter() {
            let meta = table.meta();
            self.link(&paths::table(dir, meta.number), &paths::table(target, meta.number), missing_table)?;
            for &blob in &meta.blobs {
                self.link(&paths::blob(dir, blob), &paths::blob(target, blob), missing_blob)?;
                next_file = next_file.max(blob + 1);
            }
            next_file = next_file.max(meta.number + 1);
            added.push((level, meta.clone()));
        }
        for dir in [paths::tables_dir(target), paths::blobs_dir(target)] {
            disk.sync_dir(&dir).map_err(Error::io("sync directory", dir))?;
        }
        let everything = Edit {
            next_file: Some(next_file + 1),
            first_wal: Some(1),
            first_sequence: Some(1),
            log_begun: false,
            added,
            removed: Vec::new(),
            // It has tokens of its own.
            dropped_up_to: None,
        };
        let secret = Some(self.inner().env.rng.next_u64());
        Manifest::create(disk, target, LogId { number: next_file, secret }, &everything)?;
        Ok(Copied { tables: TableList::of(everything), end_sequence, dropped_before })
    }

    /// The same file by another name, which it has already if it is a large value that two tables name.
    fn link(&self, from: &Path, to: &Path, missing: fn(PathBuf) -> Error) -> Result<(), Error> {
        let disk = &*self.inner().env.disk;
        let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        match disk.hard_link(from, to) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // The system does not say which of the two names is meant.
            Err(error) if is_gone(&error) && disk.open(from, OpenMode::Read).is_err_and(|e| is_gone(&e)) => {
                let missing = missing(from.to_path_buf());
                self.inner().shared.counters.count_failed_read(&missing);
                Err(missing)
            }
            linked => linked.map_err(Error::io("link", to)),
        }
    }
}

fn begin(disk: &dyn Disk, target: &Path) -> Result<(), Error> {
    for dir in
        [target.to_path_buf(), paths::wal_dir(target), paths::tables_dir(target), paths::blobs_dir(target)]
    {
        disk.create_dir_all(&dir).map_err(Error::io("create directory", &dir))?;
        let names = disk.list(&dir).map_err(Error::io("list", &dir))?;
        let may_be =
            ["wal", "tables", "blobs", "checkpoints", paths::RESTORING, paths::LOCK, paths::LOST_AND_FOUND];
        if names.iter().any(|name| !may_be.contains(&name.as_str())) {
            let exists = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(Error::io("make a checkpoint in", dir)(exists));
        }
    }
    Ok(())
}
