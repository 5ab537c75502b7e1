use super::names::{InodeId, os_error};
use super::state::DiskState;
use crate::{File, FileIdentity, Lock};
use parking_lot::{Mutex, MutexGuard};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// An open file. It dies with the power, and with the process.
pub(super) struct SimFile {
    pub(super) state: Arc<Mutex<DiskState>>,
    pub(super) inode: InodeId,
    pub(super) generation: u64,
    /// The path when the file was opened, by which faults select files.
    pub(super) path: PathBuf,
    pub(super) writable: bool,
}

impl SimFile {
    fn living(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let state = self.state.lock();
        state.check_alive(Some(self.generation))?;
        Ok(state)
    }

    fn to_write(&self) -> io::Result<MutexGuard<'_, DiskState>> {
        let state = self.living()?;
        if self.writable { Ok(state) } else { Err(os_error(libc::EBADF)) }
    }
}

impl File for SimFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.living()?.read(self.inode, &self.path, buffer, offset)
    }

    fn try_read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let mut state = self.living()?;
        if !state.cached {
            return Ok(false);
        }
        match state.read(self.inode, &self.path, buffer, offset) {
            Ok(()) => Ok(true),
            // The real disk cannot tell the end of the file from the end of what is cached.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        self.to_write()?.write(self.inode, &self.path, buffer, offset)
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        drop(self.living()?);
        // Numbers are not used again.
        Ok(FileIdentity { number: self.inode, born_ns: 0 })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.to_write()?.allocate(self.inode, &self.path, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.to_write()?.truncate(self.inode, &self.path, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.living()?.sync(self.inode, &self.path)
    }

    fn start_writeback(&self, _offset: u64, _len: u64) {
        // What it writes back is not durable either, and a power cut may keep any part of that anyway.
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.living()?.inode(self.inode).current().len())
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.state.lock().close(self.inode);
    }
}

/// A held lock file.
pub(super) struct SimLock {
    pub(super) state: Arc<Mutex<DiskState>>,
    pub(super) inode: InodeId,
    pub(super) generation: u64,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.state.lock().unlock(self.inode, self.generation);
    }
}
