//! The mark on a data directory into which a restore has put some files and not all: without `CURRENT` it would look like a new one.

use std::io;
use std::path::Path;

use ladoga_env::{Disk, OpenMode};

use crate::error::Error;
use crate::paths;

/// Creates the directory, if need be, and marks it, durably. Nothing else may be put there before. One that is marked already stays
/// so: an attempt that was cut off may not have made its mark durable.
pub fn begin_restore(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    disk.create_dir_all(dir).map_err(Error::io("create directory", dir))?;
    let path = dir.join(paths::RESTORING);
    let mark = match disk.open(&path, OpenMode::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(&path, OpenMode::ReadWrite),
        created => created,
    };
    let mark = mark.map_err(Error::io("create", &path))?;
    mark.sync_data().map_err(Error::io("sync", &path))?;
    disk.sync_dir(dir).map_err(Error::io("sync directory", dir))
}

/// Removes the mark, durably. Everything else has to be durable before.
pub fn end_restore(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let path = dir.join(paths::RESTORING);
    disk.remove(&path).map_err(Error::io("remove", path))?;
    disk.sync_dir(dir).map_err(Error::io("sync directory", dir))
}

/// Refuses a directory with the mark, whatever else is in it, and changes nothing.
pub(crate) fn expect_no_restore(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let path = dir.join(paths::RESTORING);
    match disk.open(&path, OpenMode::Read) {
        Ok(_) => Err(Error::RestoreNotCompleted { dir: dir.to_path_buf() }),
        // What is no directory at all is told by who opens it.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(()),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use ladoga_env::sim;

    use super::*;
    use crate::{Durability, Engine, MEMORY_BYTES_MIN, Options, check};

    #[test]
    fn a_restore_that_was_not_completed_is_refused_and_left_as_it_is() {
        let (env, disk, _) = sim::env(1);
        let dir = Path::new("/data");
        let open = || Engine::open(env.clone(), dir, Options::new(MEMORY_BYTES_MIN, Durability::Always));
        begin_restore(&*env.disk, dir).expect("a disk that works");
        begin_restore(&*env.disk, dir).expect("an attempt again");
        let told = "a restore into /data was not completed: remove the directory and restore again";
        for _ in 0..2 {
            assert_eq!(open().map(drop).expect_err("no store").to_string(), told);
            assert_eq!(check(&env, dir, &mut |_| {}).map(drop).expect_err("no store").to_string(), told);
            assert_eq!(env.disk.list(dir).expect("a directory"), [paths::RESTORING]);
        }
        end_restore(&*env.disk, dir).expect("a disk that works");
        assert!(disk.paths().is_empty());
        open().expect("a new store").close().expect("a disk that works");
    }
}
