use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Disk, File, OpenMode};

/// A file that is replaced as a whole: after a crash it has its old bytes or the new ones.
///
/// ```text
/// calls := begin fill publish                  if nothing happens in between: Replacement::of
///        | begin fill rename                   and a sync of the directory
/// ```
///
/// Up to `publish`, a failure does no harm: the file is as before. After a failed `publish` it is unknown which bytes it has.
pub struct Replacement {
    file: Arc<dyn File>,
    new: PathBuf,
    path: PathBuf,
}

/// What failed, and of which file.
#[derive(Debug)]
pub struct ReplaceError {
    /// What was done to it.
    pub operation: &'static str,
    /// Which file.
    pub path: PathBuf,
    /// Why it failed.
    pub error: io::Error,
}

impl ReplaceError {
    fn of<'a>(operation: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> ReplaceError + use<'a> {
        move |error| ReplaceError { operation, path: path.to_owned(), error }
    }
}

impl From<ReplaceError> for io::Error {
    fn from(failed: ReplaceError) -> io::Error {
        failed.error
    }
}

impl Replacement {
    /// Replaces the file `path` by `bytes`, durably.
    pub fn of(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<(), ReplaceError> {
        let replacement = Replacement::begin(disk, path)?;
        replacement.fill(bytes)?;
        replacement.publish(disk)
    }

    /// Creates the file that is to become `path`: beside it, with `.new` behind its name. If a crash has left one, it is
    /// removed.
    pub fn begin(disk: &dyn Disk, path: &Path) -> Result<Replacement, ReplaceError> {
        let new = Replacement::temporary(path);
        let created = match disk.open(&new, OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                disk.remove(&new).map_err(ReplaceError::of("remove", &new))?;
                disk.open(&new, OpenMode::CreateNew)
            }
            created => created,
        };
        let file = created.map_err(ReplaceError::of("create", &new))?;
        Ok(Replacement { file, new, path: path.to_owned() })
    }

    /// The name of the file before it is the one at `path`.
    pub fn temporary(path: &Path) -> PathBuf {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        name.into()
    }

    /// The new file.
    pub fn file(&self) -> &dyn File {
        &*self.file
    }

    /// Makes these its bytes, durably.
    pub fn fill(&self, bytes: &[u8]) -> Result<(), ReplaceError> {
        self.file.write_all_at(bytes, 0).map_err(ReplaceError::of("write", &self.new))?;
        self.file.sync_data().map_err(ReplaceError::of("sync", &self.new))
    }

    /// Puts it in the place of the old one, durably.
    pub fn publish(self, disk: &dyn Disk) -> Result<(), ReplaceError> {
        let path = self.path.clone();
        self.rename(disk)?;
        let dir = path.parent().unwrap_or(Path::new(""));
        disk.sync_dir(dir).map_err(ReplaceError::of("sync directory", dir))
    }

    /// The same, but until its directory is synced, a crash leaves it there or the old one. If it fails for lack of room, the old
    /// one is still in its place.
    pub fn rename(self, disk: &dyn Disk) -> Result<(), ReplaceError> {
        let Replacement { file, new, path } = self;
        // It is written. The sync of the directory needs a descriptor, too.
        drop(file);
        disk.rename(&new, &path).map_err(ReplaceError::of("rename", &new))
    }
}
