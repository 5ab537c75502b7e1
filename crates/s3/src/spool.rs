use std::fs::{DirBuilder, remove_dir_all};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, File, OpenMode};

use crate::client::Content;

const PIECE_BYTES: usize = 256 << 10;

/// Files that are not complete: in a directory of this machine that nobody else may read, and that ends with the process.
pub(crate) struct Spool {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl Spool {
    pub(crate) fn create(disk: Arc<dyn Disk>, number: u64) -> io::Result<Spool> {
        let dir = std::env::temp_dir().join(format!("ladoga-backup-{}-{number:016x}", std::process::id()));
        // One that is there is somebody else's.
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(Spool { disk, dir })
    }

    fn path(&self, name: &Path) -> io::Result<PathBuf> {
        let name = name.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.dir.join(name))
    }

    pub(crate) fn open(&self, name: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk.open(&self.path(name)?, mode)
    }

    pub(crate) fn remove(&self, name: &Path) -> io::Result<()> {
        self.disk.remove(&self.path(name)?)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        // What stays is the system's to tidy up.
        let _ = remove_dir_all(&self.dir);
    }
}

/// A complete file as what an object is to consist of.
pub(crate) struct Spooled {
    file: Arc<dyn File>,
    bytes: u64,
}

impl Spooled {
    pub(crate) fn of(file: Arc<dyn File>) -> io::Result<Spooled> {
        let bytes = file.len()?;
        Ok(Spooled { file, bytes })
    }

    pub(crate) fn crc32c(&self) -> io::Result<u32> {
        let (mut reader, mut piece, mut crc) = (self.read(), vec![0; PIECE_BYTES], 0);
        loop {
            match reader.read(&mut piece)? {
                0 => return Ok(crc),
                count => crc = crc32c::crc32c_append(crc, &piece[..count]),
            }
        }
    }
}

impl Content for Spooled {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read<'c>(&'c self) -> Box<dyn Read + 'c> {
        Box::new(Reading { spooled: self, at: 0 })
    }
}

struct Reading<'s> {
    spooled: &'s Spooled,
    at: u64,
}

impl Read for Reading<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (self.spooled.bytes - self.at).min(buffer.len() as u64) as usize;
        self.spooled.file.read_exact_at(&mut buffer[..count], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_a_whole_and_its_directory_ends_with_it() {
        let env = ladoga_env::real::env().expect("an environment");
        let spool = Spool::create(Arc::clone(&env.disk), env.rng.next_u64()).expect("a directory");
        let name = Path::new("s3://bucket/files/a.new");
        let content: Vec<u8> = (0..PIECE_BYTES + 17).map(|n| n as u8).collect();
        spool.open(name, OpenMode::CreateNew).expect("a new file").write_all_at(&content, 0).expect("room");
        let spooled = Spooled::of(spool.open(name, OpenMode::Read).expect("it")).expect("its length");
        let mut read = Vec::new();
        spooled.read().read_to_end(&mut read).expect("all of it");
        assert_eq!(
            (read.len() as u64, spooled.crc32c().expect("it")),
            (spooled.bytes(), crc32c::crc32c(&content))
        );
        let dir = spool.dir.clone();
        drop(spool);
        assert!(!dir.exists());
    }
}
