use std::fs::{DirBuilder, remove_dir_all, symlink_metadata};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::{Disk, File, Lock, OpenMode};

use crate::client::Content;

const PIECE_BYTES: usize = 256 << 10;

/// What the names of the directories begin with; the number of the process and a random one follow.
const NAME: &str = "ladoga-backup-";
/// Locked as long as the process lives. Only files `*.new` come into the directory, so none is called like this.
const LOCK: &str = "LOCK";

/// Files that are not complete: in a directory of this machine that nobody else may read, and that ends with the process.
pub(crate) struct Spool {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    _lock: Box<dyn Lock>,
}

impl Spool {
    pub(crate) fn create(disk: Arc<dyn Disk>, number: u64) -> io::Result<Spool> {
        Spool::create_in(&std::env::temp_dir(), disk, number)
    }

    fn create_in(parent: &Path, disk: Arc<dyn Disk>, number: u64) -> io::Result<Spool> {
        let dir = parent.join(format!("{NAME}{}-{number:016x}", std::process::id()));
        // One that is there is somebody else's.
        DirBuilder::new().mode(0o700).create(&dir)?;
        let lock = disk.lock(&dir.join(LOCK))?;
        remove_abandoned(&*disk, &dir);
        Ok(Spool { disk, dir, _lock: lock })
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

/// Removes directories beside `own` that processes of the same user have left which were killed: they may have a whole table each, or a
/// large value. What cannot be removed is the system's to tidy up.
fn remove_abandoned(disk: &dyn Disk, own: &Path) {
    let (Some(parent), Ok(Metadata { user, .. })) = (own.parent(), metadata(own)) else { return };
    for name in disk.list(parent).unwrap_or_default() {
        let dir = parent.join(&name);
        let is_ours = metadata(&dir).is_ok_and(|found| found.is_dir && found.user == user);
        // A process in another container seems dead; its lock tells that it is not.
        if is_ours
            && dir != own
            && process_of(&name).is_some_and(is_dead)
            && disk.lock(&dir.join(LOCK)).is_ok()
        {
            let _ = remove_dir_all(&dir);
        }
    }
}

struct Metadata {
    is_dir: bool,
    user: u32,
}

/// Of the entry itself, not of what a link leads to.
fn metadata(path: &Path) -> io::Result<Metadata> {
    let found = symlink_metadata(path)?;
    Ok(Metadata { is_dir: found.is_dir(), user: found.uid() })
}

/// The number of the process whose directory has this name.
fn process_of(name: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix(NAME)?.split_once('-')?;
    let is_number = number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit());
    process.parse().ok().filter(|_| is_number)
}

/// Where the system does not tell, nobody is.
fn is_dead(process: u32) -> bool {
    let exists = |name: &str| Path::new("/proc").join(name).exists();
    exists("self") && !exists(&process.to_string())
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

    #[test]
    fn what_killed_processes_have_left_is_removed_and_nothing_else() {
        let env = ladoga_env::real::env().expect("an environment");
        let parent =
            std::env::temp_dir().join(format!("spool-test-{}-{:x}", std::process::id(), env.rng.next_u64()));
        let make =
            |name: &str| DirBuilder::new().recursive(true).create(parent.join(name)).expect("a directory");
        // No process has this number.
        let dead = u32::MAX;
        let [left, held, other, alive] = [
            format!("{NAME}{dead}-0000000000000001"),
            format!("{NAME}{dead}-0000000000000002"),
            format!("{NAME}{dead}-photos"),
            format!("{NAME}{}-0000000000000003", std::process::id()),
        ];
        [&left, &held, &other, &alive].into_iter().for_each(|name| make(name));
        let lock = env.disk.lock(&parent.join(&held).join(LOCK)).expect("a lock");
        let spool = Spool::create_in(&parent, Arc::clone(&env.disk), 4).expect("a directory");
        let names = |wanted: &[&String]| wanted.iter().all(|name| parent.join(name.as_str()).exists());
        assert!(!names(&[&left]) && names(&[&held, &other, &alive]));
        drop((spool, lock));
        remove_dir_all(&parent).expect("it is ours");
    }
}
