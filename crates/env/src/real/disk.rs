#![expect(clippy::disallowed_methods, reason = "this is the seam")]

use super::file::RealFile;
use super::ring::RealRing;
use super::syscall;
use crate::{Disk, File, Lock, OpenMode, ReadRing};
use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
use std::path::Path;
use std::sync::Arc;

/// The operating system's file system.
#[derive(Debug, Clone, Copy)]
pub struct RealDisk {
    has_rings: bool,
}

impl RealDisk {
    /// The disk, with read rings if the system permits them.
    pub fn new() -> Self {
        Self { has_rings: true }
    }

    /// The disk, without read rings even if there could be some.
    pub fn without_rings() -> Self {
        Self { has_rings: false }
    }
}

impl Default for RealDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if mode != OpenMode::CreateNew {
            expect_file(path)?;
        }
        let file = match mode {
            OpenMode::Read => OpenOptions::new().read(true).open(path)?,
            OpenMode::ReadWrite => OpenOptions::new().read(true).write(true).open(path)?,
            OpenMode::CreateNew => OpenOptions::new().read(true).write(true).create_new(true).open(path)?,
        };
        Ok(Arc::new(RealFile::new(file)))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not UTF-8 is none of ours; made lossy, it is still seen and matches no file we name.
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        if dir.is_dir() {
            return sync_parent_of_found(dir);
        }
        if let Some(parent) = parent(dir) {
            self.create_dir_all(parent)?;
        }
        match fs::create_dir(dir) {
            // Someone else was faster; their sync may still be to come, so ours follows all the same.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            result => result?,
        }
        sync_parent(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        fs::File::open(dir)?.sync_all()
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        syscall::free_bytes(&fs::File::open(dir)?)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        // Not truncated: the lock's holder decides what an administrator finds in the file.
        let writable = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let file = match writable {
            // What can only be read may be locked all the same, and so be verified.
            Err(error) if matches!(error.kind(), ReadOnlyFilesystem | PermissionDenied) => {
                fs::File::open(path).map_err(|_| error)?
            }
            writable => writable?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Box::new(RealLock { _file: file })),
            Err(TryLockError::WouldBlock) => {
                let message = format!("{} is locked by another process", path.display());
                Err(io::Error::new(io::ErrorKind::WouldBlock, message))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn read_ring(&self, reads_max: usize) -> io::Result<Box<dyn ReadRing>> {
        if !self.has_rings {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "reads by threads were asked for"));
        }
        Ok(Box::new(RealRing::new(reads_max)?))
    }
}

/// `flock` belongs to the open file: closing it gives it back, as does the death of the process.
#[derive(Debug)]
struct RealLock {
    _file: fs::File,
}

impl Lock for RealLock {}

/// Checked before it is opened, because opening a pipe waits for its other end.
fn expect_file(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    if kind.is_file() {
        return Ok(());
    }
    // The error of the system for a positioned read of such a file.
    Err(io::Error::from_raw_os_error(if kind.is_dir() { libc::EISDIR } else { libc::ESPIPE }))
}

/// A directory that a killed process has left may not be durable yet. Everything above the deepest one that exists is durable:
/// each is synced before the next is created.
fn sync_parent_of_found(dir: &Path) -> io::Result<()> {
    match sync_parent(dir) {
        // Who may not read the parent (the root of a container, say) cannot have created anything in it.
        Err(error) if error.kind() == PermissionDenied => Ok(()),
        result => result,
    }
}

fn sync_parent(dir: &Path) -> io::Result<()> {
    parent(dir).map_or(Ok(()), |parent| fs::File::open(parent)?.sync_all())
}

/// The directory of `path`; the current one if the path has none, and none above the root.
fn parent(path: &Path) -> Option<&Path> {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
        parent => parent,
    }
}
