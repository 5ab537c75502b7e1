//! The directory that backups are in.
//!
//! ```text
//! DIR/LOCK                    locked by who takes a backup or prunes
//! DIR/repository              what the directory is, and its format
//! DIR/files/TAG-HASH          a table or a large value as it is in a data directory; TAG is what its node called it,
//!                             HASH the 128 bits of XXH3 over its bytes, both in hexadecimal digits
//! DIR/files/TAG.new           one that is being fetched, or that a crash left
//! DIR/backups/ID.json         a backup; it is written last, so it names only what is there
//! ```
//!
//! - `manifest`: what a backup says of itself; `names`: names of files
//! - `incoming`: a file on its way in

mod incoming;
mod manifest;
mod names;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, Env, Lock, OpenMode, Replacement};
use ladoga_storage::LOST_AND_FOUND;

use crate::error::Error;
use crate::moment::name_of_ms;
pub(crate) use incoming::{Incoming, hash_file};
pub use manifest::{Backup, Missing, NodeBackup, StoredFile};
pub(crate) use manifest::{sealed, unsealed};
pub use names::StoredName;

const MARKER: &str = "repository";
/// The marker begins with this; a number and a newline follow.
const MARKER_TEXT: &str = "ladoga backups ";
const FORMAT: u64 = 1;
const LOCK: &str = "LOCK";
/// More than this is no marker.
const MARKER_BYTES_MAX: u64 = 64;
/// The longest manifest that is read, and so the longest that is written: of millions of files.
pub(crate) const MANIFEST_BYTES_MAX: u64 = if cfg!(test) { 64 << 10 } else { 512 << 20 };
/// How often a list is opened that is replaced while it is read. A log's is about once in 64 MiB that are fetched.
const READ_ATTEMPTS: u32 = 5;
/// What to do if a manifest would be longer.
const TOO_MANY_FILES: &str =
    "there are too many files for one backup. `ladoga export` has all records of a store of any size";

/// A directory of backups.
pub struct Repository {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

/// The right to change it.
pub struct Writing {
    _lock: Box<dyn Lock>,
}

impl Repository {
    /// One that is there.
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Repository, Error> {
        let repository = Repository { disk: Arc::clone(disk), dir: dir.to_path_buf() };
        if repository.is_marked()? {
            return Ok(repository);
        }
        Err(Error::NoBackups { path: dir.to_path_buf() })
    }

    /// Whether there is one. Makes nothing; fails if none could begin there, because the directory has other things in it.
    pub fn is_there(disk: &Arc<dyn Disk>, dir: &Path) -> Result<bool, Error> {
        let repository = Repository { disk: Arc::clone(disk), dir: dir.to_path_buf() };
        if repository.is_marked()? {
            return Ok(true);
        }
        match repository.expect_nothing_else() {
            Err(Error::Io { error, .. }) if is_missing(&error) => Ok(false),
            expected => expected.map(|()| false),
        }
    }

    /// One that is there, or a new one in a directory that is not or is empty; for who is going to change it.
    pub fn create(disk: &Arc<dyn Disk>, dir: &Path) -> Result<(Repository, Writing), Error> {
        let repository = Repository { disk: Arc::clone(disk), dir: dir.to_path_buf() };
        let is_marked = repository.is_marked()?;
        if !is_marked {
            repository.expect_new()?;
        }
        let writing = repository.lock()?;
        // Others may begin it at the same time: the first one that has the lock does.
        if !is_marked && !repository.is_marked()? {
            repository.begin()?;
        }
        Ok((repository, writing))
    }

    /// Keeps everybody else from changing it.
    pub fn lock(&self) -> Result<Writing, Error> {
        let path = self.dir.join(LOCK);
        match self.disk.lock(&path) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(Error::Busy { path: self.dir.clone() })
            }
            lock => Ok(Writing { _lock: lock.map_err(Error::io("lock", &path))? }),
        }
    }

    fn is_marked(&self) -> Result<bool, Error> {
        let path = self.dir.join(MARKER);
        let text = match self.read_small(&path, MARKER_BYTES_MAX) {
            Err(Error::Io { error, .. }) if is_missing(&error) => return Ok(false),
            text => text?,
        };
        let format = str::from_utf8(&text).ok().and_then(|text| text.strip_prefix(MARKER_TEXT));
        let format = format.and_then(|format| format.trim_end().parse::<u64>().ok());
        match format {
            Some(FORMAT) => Ok(true),
            Some(found) if found > FORMAT => Err(Error::NewerFormat { path, found, supported: FORMAT }),
            _ => Err(Error::Damaged { path, what: format!("expected `{MARKER_TEXT}{FORMAT}`") }),
        }
    }

    /// Makes the directory, and leaves one alone, without so much as a lock, that has other things in it.
    fn expect_new(&self) -> Result<(), Error> {
        let disk = &*self.disk;
        disk.create_dir_all(&self.dir).map_err(Error::io("create directory", &self.dir))?;
        self.expect_nothing_else()
    }

    fn expect_nothing_else(&self) -> Result<(), Error> {
        let disk = &*self.disk;
        let names = disk.list(&self.dir).map_err(Error::io("list", &self.dir))?;
        let marker = format!("{MARKER}.new");
        let own = [LOCK, "files", "backups", marker.as_str(), LOST_AND_FOUND];
        match names.into_iter().find(|name| !own.contains(&name.as_str())) {
            // Another process may have begun it since.
            Some(found) if !self.is_marked()? => Err(Error::NoRepository { path: self.dir.clone(), found }),
            _ => Ok(()),
        }
    }

    /// Makes it a repository. The marker comes last: what a crash leaves is begun again.
    fn begin(&self) -> Result<(), Error> {
        let disk = &*self.disk;
        for dir in [self.files_dir(), self.backups_dir()] {
            disk.create_dir_all(&dir).map_err(Error::io("create directory", &dir))?;
        }
        let text = format!("{MARKER_TEXT}{FORMAT}\n");
        Ok(Replacement::of(disk, &self.dir.join(MARKER), text.as_bytes())?)
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn files_dir(&self) -> PathBuf {
        self.dir.join("files")
    }

    /// Where segments of logs are, and what is known of them.
    pub(crate) fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub(crate) fn backups_dir(&self) -> PathBuf {
        self.dir.join("backups")
    }

    /// Where a stored file is.
    pub fn file(&self, name: StoredName) -> PathBuf {
        self.files_dir().join(name.to_string())
    }

    /// Every file that is stored, and its length.
    pub(crate) fn stored(&self) -> Result<Vec<(StoredName, u64)>, Error> {
        let dir = self.files_dir();
        let names = self.disk.list_lengths(&dir).map_err(Error::io("list", &dir))?;
        Ok(names.into_iter().filter_map(|(name, bytes)| Some((name.parse().ok()?, bytes))).collect())
    }

    /// The names of all backups, the oldest first.
    pub fn ids(&self) -> Result<Vec<String>, Error> {
        let dir = self.backups_dir();
        let names = self.disk.list(&dir).map_err(Error::io("list", &dir))?;
        let id = |name: String| name.strip_suffix(".json").filter(|id| names::is_id(id)).map(str::to_owned);
        // The system lists them in the order of their names.
        Ok(names.into_iter().filter_map(id).collect())
    }

    /// Reads a backup.
    pub fn backup(&self, id: &str) -> Result<Backup, Error> {
        let unknown = || Error::Unknown { id: id.to_owned(), path: self.dir.clone() };
        if !names::is_id(id) {
            return Err(unknown());
        }
        let path = self.manifest_path(id);
        let bytes = match self.read_small(&path, MANIFEST_BYTES_MAX) {
            Err(Error::Io { error, .. }) if is_missing(&error) => return Err(unknown()),
            bytes => bytes?,
        };
        let backup = Backup::decode(&path, &bytes)?;
        if backup.id != id {
            let what = format!("it says that it is {}", backup.id);
            return Err(Error::Damaged { path, what });
        }
        Ok(backup)
    }

    /// A name for a backup that begins now, newer than all that there are.
    pub fn new_id(&self, env: &Env) -> Result<String, Error> {
        let newest = self.ids()?.pop();
        let mut ms = env.clock.wall_ms();
        loop {
            let id = name_of_ms(ms);
            if !names::is_id(&id) {
                // A name like one of ours that is no moment, or a clock that is.
                let path = newest.as_ref().map_or_else(|| self.backups_dir(), |id| self.manifest_path(id));
                let what = "no name of a backup is newer than this one".to_owned();
                return Err(Error::Damaged { path, what });
            }
            match &newest {
                // Two in one second, or a clock that was set back: prune goes by names.
                Some(newest) if *newest >= id => ms = ms.saturating_add(1_000).max(moment_after(newest)),
                _ => return Ok(id),
            }
        }
    }

    /// Writes a backup down: from then on it is there. All of its files are.
    pub fn publish(&self, _: &Writing, backup: &Backup) -> Result<(), Error> {
        let dir = self.files_dir();
        self.disk.sync_dir(&dir).map_err(Error::io("sync directory", &dir))?;
        self.write_list(&self.manifest_path(&backup.id), &backup.encode(), TOO_MANY_FILES)
    }

    /// Fails if the manifest of a backup whose nodes take so many bytes of it could not be read.
    pub(crate) fn expect_room_for_list(&self, bytes: u64) -> Result<(), Error> {
        expect_readable(&self.backups_dir(), bytes, TOO_MANY_FILES)
    }

    /// Writes a list of files, if it can be read again.
    pub(crate) fn write_list(&self, path: &Path, bytes: &[u8], advice: &'static str) -> Result<(), Error> {
        expect_readable(path, bytes.len() as u64, advice)?;
        Ok(Replacement::of(&*self.disk, path, bytes)?)
    }

    pub(crate) fn manifest_path(&self, id: &str) -> PathBuf {
        self.backups_dir().join(format!("{id}.json"))
    }

    /// Reads a short file as a whole. One in a bucket, or on another machine, may be replaced between two reads of it.
    pub(crate) fn read_small(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let mut attempts = 1;
        loop {
            match self.read_once(path, bytes_max) {
                Err(Error::Io { error, .. }) if is_stale(&error) && attempts < READ_ATTEMPTS => attempts += 1,
                read => return read,
            }
        }
    }

    fn read_once(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let file = self.disk.open(path, OpenMode::Read).map_err(Error::io("open", path))?;
        let length = file.len().map_err(Error::io("measure", path))?;
        if length > bytes_max {
            let what = format!("it has {length} bytes, expected at most {bytes_max}");
            return Err(Error::Damaged { path: path.to_owned(), what });
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(Error::io("read", path))?;
        Ok(bytes)
    }
}

fn expect_readable(path: &Path, bytes: u64, advice: &'static str) -> Result<(), Error> {
    if bytes <= MANIFEST_BYTES_MAX {
        return Ok(());
    }
    Err(Error::ListTooLong { path: path.to_owned(), bytes, bytes_max: MANIFEST_BYTES_MAX, advice })
}

pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn is_stale(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

/// Some moment whose name is not before this name. Names have the width of years up to 9999.
fn moment_after(newest: &str) -> u64 {
    let (mut low, mut high) = (0, 253_402_300_799);
    while low < high {
        let middle = low + (high - low) / 2;
        if *newest < *name_of_ms(middle * 1_000) { high = middle } else { low = middle + 1 }
    }
    low * 1_000
}

#[cfg(test)]
mod bound_tests;
