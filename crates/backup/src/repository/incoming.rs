use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, File, OpenMode};
use xxhash_rust::xxh3::Xxh3;

use super::Repository;
use crate::PIECE_BYTES_MAX;
use crate::error::Error;

/// A file on its way in. Dropped before it is published, it is removed, so that what is refused, or what a full disk has no room
/// for, takes none.
///
/// Protocol: `begin write* close publish`.
pub(crate) struct Incoming {
    disk: Arc<dyn Disk>,
    /// Until it is closed.
    file: Option<Arc<dyn File>>,
    is_published: bool,
    path: PathBuf,
    hash: Xxh3,
    bytes: u64,
}

impl Incoming {
    pub(crate) fn begin(repository: &Repository, path: PathBuf) -> Result<Incoming, Error> {
        let disk = Arc::clone(repository.disk());
        let created = match disk.open(&path, OpenMode::CreateNew) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                disk.remove(&path).map_err(Error::io("remove", &path))?;
                disk.open(&path, OpenMode::CreateNew)
            }
            created => created,
        };
        let file = Some(created.map_err(Error::io("create", &path))?);
        Ok(Incoming { disk, file, is_published: false, path, hash: Xxh3::new(), bytes: 0 })
    }

    pub(crate) const fn path(&self) -> &PathBuf {
        &self.path
    }

    fn file(&self) -> &Arc<dyn File> {
        self.file.as_ref().expect("it is closed last")
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.file().write_all_at(bytes, self.bytes).map_err(Error::io("write", &self.path))?;
        // So that the sync at the end finds little to do.
        self.file().start_writeback(self.bytes, bytes.len() as u64);
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes its bytes durable.
    pub(crate) fn close(&mut self) -> Result<(), Error> {
        self.file().sync_data().map_err(Error::io("sync", &self.path))?;
        self.file = None;
        Ok(())
    }

    /// Gives it its name. It is closed, and verified; its name is durable once the directory is synced.
    pub(crate) fn publish(mut self, path: &Path) -> Result<(), Error> {
        self.disk.rename(&self.path, path).map_err(Error::io("rename", &self.path))?;
        self.is_published = true;
        Ok(())
    }

    /// The hash of what was written.
    pub(crate) fn hash(&self) -> u128 {
        self.hash.digest128()
    }

    /// How much was written.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_published {
            // What cannot be removed now is swept by the next prune.
            _ = self.disk.remove(&self.path);
        }
    }
}

/// XXH3 of a file of so many bytes; `each` sees them as they come.
pub(crate) fn hash_file(
    disk: &dyn Disk,
    path: &Path,
    mut each: impl FnMut(&[u8], u64) -> Result<(), Error>,
) -> Result<(u128, u64), Error> {
    let file = disk.open(path, OpenMode::Read).map_err(Error::io("open", path))?;
    let length = file.len().map_err(Error::io("measure", path))?;
    let (mut hash, mut offset) = (Xxh3::new(), 0);
    let mut piece = vec![0; PIECE_BYTES_MAX.min(length as usize)];
    while offset < length {
        let bytes = &mut piece[..(length - offset).min(PIECE_BYTES_MAX as u64) as usize];
        file.read_exact_at(bytes, offset).map_err(Error::io("read", path))?;
        hash.update(bytes);
        each(bytes, offset)?;
        offset += bytes.len() as u64;
    }
    Ok((hash.digest128(), length))
}
