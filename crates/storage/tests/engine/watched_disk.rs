//! A disk that reports operations on its files to a test, which may delay them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ladoga_env::{Disk, File, Lock, OpenMode};

const SYNC: Duration = Duration::from_millis(2);

/// What is about to be done to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    Sync,
}

type Watch = Arc<dyn Fn(Touch) + Send + Sync>;

pub(crate) struct WatchedDisk(Arc<dyn Disk>, Watch);

impl WatchedDisk {
    pub(crate) fn watched(
        disk: Arc<dyn Disk>,
        watch: impl Fn(Touch) + Send + Sync + 'static,
    ) -> Arc<dyn Disk> {
        Arc::new(WatchedDisk(disk, Arc::new(watch)))
    }

    /// One whose syncs take a while, for real: a writer is faster than the flushes, which sync. They cannot wait for the
    /// writer to have got ahead instead, since it waits in turn for a segment that the background syncs.
    pub(crate) fn slow(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
        WatchedDisk::watched(disk, |touch| {
            if touch == Touch::Sync {
                std::thread::sleep(SYNC);
            }
        })
    }
}

struct WatchedFile(Arc<dyn File>, Watch);

impl Disk for WatchedDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(WatchedFile(self.0.open(path, mode)?, self.1.clone())))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.0.lock(path)
    }
}

impl File for WatchedFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        (self.1)(Touch::Read);
        self.0.read_exact_at(buffer, offset)
    }

    fn try_read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        (self.1)(Touch::Read);
        self.0.try_read_exact_at(buffer, offset)
    }

    fn write_all_at(&self, buffer: &[u8], offset: u64) -> io::Result<()> {
        (self.1)(Touch::Write);
        self.0.write_all_at(buffer, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        (self.1)(Touch::Sync);
        self.0.sync_data()
    }

    fn start_writeback(&self, offset: u64, len: u64) {
        self.0.start_writeback(offset, len);
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }
}
