use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, File, OpenMode};

use crate::error::Error;

/// Bytes of a log that are read at a time; more if a frame is longer.
const WINDOW_BYTES: usize = 1 << 20;

/// The bytes of a log, of which memory has a part at a time: a log may be longer than the memory that is there to read it.
pub(crate) struct LogBytes {
    /// `None` if memory has all of it.
    file: Option<Arc<dyn File>>,
    path: PathBuf,
    length: u64,
    window: Vec<u8>,
    /// Where the window begins.
    begin: u64,
}

impl LogBytes {
    /// Those of a file. One that is longer than `bytes_max` is none of ours.
    pub(crate) fn open(disk: &dyn Disk, path: PathBuf, bytes_max: u64) -> Result<LogBytes, Error> {
        let file = disk.open(&path, OpenMode::Read).map_err(Error::io("open", &path))?;
        let length = measure(&*file, &path, bytes_max)?;
        Ok(LogBytes { file: Some(file), path, length, window: Vec::new(), begin: 0 })
    }

    /// Those that are in memory already.
    pub(crate) fn of(path: &Path, bytes: Vec<u8>) -> LogBytes {
        LogBytes { file: None, path: path.into(), length: bytes.len() as u64, window: bytes, begin: 0 }
    }

    pub(crate) const fn path(&self) -> &PathBuf {
        &self.path
    }

    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// The bytes from `offset` on: at least `wanted` of them, unless the log ends before; and what else memory has.
    pub(crate) fn ahead(&mut self, offset: u64, wanted: usize) -> Result<&[u8], Error> {
        let offset = offset.min(self.length);
        let end = offset.saturating_add(wanted as u64).min(self.length);
        if offset < self.begin || end > self.begin + self.window.len() as u64 {
            self.read(offset, wanted.max(WINDOW_BYTES))?;
        }
        Ok(&self.window[(offset - self.begin) as usize..])
    }

    fn read(&mut self, offset: u64, wanted: usize) -> Result<(), Error> {
        let file = self.file.as_ref().expect("memory has all of it where there is no file");
        let bytes = (self.length - offset).min(wanted as u64) as usize;
        if self.window.capacity() > bytes.max(WINDOW_BYTES) {
            // It was for a frame that is behind.
            self.window = Vec::new();
        }
        // If the read fails, the window is empty.
        self.begin = offset;
        self.window.clear();
        let mut window = std::mem::take(&mut self.window);
        window.resize(bytes, 0);
        file.read_exact_at(&mut window, offset).map_err(Error::io_at("read", &self.path, offset))?;
        self.window = window;
        Ok(())
    }
}

/// The length of a file, if it is not longer than `bytes_max`.
pub(crate) fn measure(file: &dyn File, path: &Path, bytes_max: u64) -> Result<u64, Error> {
    let length = file.len().map_err(Error::io("measure", path))?;
    if length <= bytes_max {
        return Ok(length);
    }
    Err(Error::Corruption {
        path: path.into(),
        offset: bytes_max,
        what: "file length",
        expected: format!("at most {bytes_max} bytes"),
        found: format!("{length} bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_of_a_file_is_what_it_is_in_memory() {
        let (env, disk, _) = ladoga_env::sim::env(1);
        let path = Path::new("/log");
        let all: Vec<u8> = (0..3 * WINDOW_BYTES + 77).map(|n| (n * 31 / 7) as u8).collect();
        disk.open(path, OpenMode::CreateNew).and_then(|file| file.write_all_at(&all, 0)).expect("room");
        let mut log = LogBytes::open(&disk, path.into(), all.len() as u64).expect("a file");
        assert_eq!(log.length(), all.len() as u64);
        for _ in 0..300 {
            let (offset, wanted) =
                (env.rng.below(all.len() as u64 + 9), env.rng.below(2 * WINDOW_BYTES as u64) as usize);
            let behind = &all[(offset as usize).min(all.len())..];
            let found = log.ahead(offset, wanted).expect("a sound disk");
            assert!(found.len() >= wanted.min(behind.len()) && *found == behind[..found.len()], "{offset}");
            assert!(log.window.len() <= wanted.max(2 * WINDOW_BYTES));
        }
        assert!(LogBytes::open(&disk, path.into(), 9).is_err_and(|error| error.is_corruption()));
    }
}
