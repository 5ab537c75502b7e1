//! What a store is called.
//!
//! ```text
//! store := name u128, number u64, born_ns u64                                      numbers little-endian, never change
//! ```
//!
//! `number` and `born_ns` say which file it was written to. In a copy of the directory it is another file, and the copy is another store
//! with another name: backups of both go to one repository, and are not taken for those of one. A directory that is moved within its file
//! system keeps its name. An earlier release wrote the name alone: that one stays, and which file it is in is added.

use std::io;
use std::path::Path;

use ladoga_env::{Disk, File, FileIdentity, OpenMode, Replacement, Rng};
use ladoga_storage::Error;

const NAME_BYTES: usize = 16;
const BYTES: usize = NAME_BYTES + 16;

/// What the store is called whose name is in the file `path`; it is given one if it has none.
pub(super) fn read_or_make(disk: &dyn Disk, rng: &dyn Rng, path: &Path) -> Result<u128, Error> {
    let failed = |operation| {
        move |error: io::Error| Error::Io {
            operation,
            path: path.to_owned(),
            offset: None,
            kind: error.kind(),
            code: error.raw_os_error(),
        }
    };
    let found = match disk.open(path, OpenMode::Read) {
        Ok(file) => read(&*file).map_err(failed("read"))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => FoundName::Nothing,
        Err(error) => return Err(failed("open")(error)),
    };
    let name = match found {
        FoundName::Own(name) => return Ok(name),
        FoundName::NameAlone(name) => name,
        FoundName::Copied => {
            tracing::info!("the data directory is a copy: to backups it is another store");
            new_name(rng)
        }
        FoundName::Nothing => new_name(rng),
    };
    if let Some(dir) = path.parent() {
        // Who asks for the log may be earlier than the first checkpoint.
        disk.create_dir_all(dir).map_err(failed("create directory"))?;
    }
    let replacement = Replacement::begin(disk, path)?;
    let identity = replacement.file().identity().map_err(failed("identify"))?;
    replacement.fill(&encode(name, identity))?;
    replacement.publish(disk)?;
    Ok(name)
}

/// What is in the file.
enum FoundName {
    /// A name that was written to this file.
    Own(u128),
    /// One that was written to another file.
    Copied,
    /// One of an earlier release.
    NameAlone(u128),
    /// No name: another one costs a full backup, and nothing else.
    Nothing,
}

fn read(file: &dyn File) -> io::Result<FoundName> {
    let length = file.len()?;
    let mut bytes = [0; BYTES];
    if length == BYTES as u64 {
        file.read_exact_at(&mut bytes, 0)?;
        let is_own = bytes == encode(name_of(bytes), file.identity()?);
        return Ok(if is_own { FoundName::Own(name_of(bytes)) } else { FoundName::Copied });
    }
    if length == NAME_BYTES as u64 {
        file.read_exact_at(&mut bytes[..NAME_BYTES], 0)?;
        return Ok(FoundName::NameAlone(name_of(bytes)));
    }
    Ok(FoundName::Nothing)
}

fn new_name(rng: &dyn Rng) -> u128 {
    u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())
}

fn encode(name: u128, FileIdentity { number, born_ns }: FileIdentity) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..NAME_BYTES].copy_from_slice(&name.to_le_bytes());
    bytes[NAME_BYTES..NAME_BYTES + 8].copy_from_slice(&number.to_le_bytes());
    bytes[NAME_BYTES + 8..].copy_from_slice(&born_ns.to_le_bytes());
    bytes
}

fn name_of(bytes: [u8; BYTES]) -> u128 {
    let mut name = [0; NAME_BYTES];
    name.copy_from_slice(&bytes[..NAME_BYTES]);
    u128::from_le_bytes(name)
}

#[cfg(test)]
mod tests {
    use ladoga_env::Env;
    use ladoga_env::sim::{self, SimDisk};

    use super::*;

    const PATH: &str = "/data/checkpoints/store";

    fn name(env: &Env, path: &str) -> u128 {
        read_or_make(&*env.disk, &*env.rng, Path::new(path)).expect("a sound disk")
    }

    fn bytes(disk: &SimDisk, path: &str) -> Vec<u8> {
        disk.read_file(Path::new(path)).expect("a file")
    }

    /// Two nodes in one repository were taken for one: prune kept the backups of one of them.
    #[test]
    fn a_copy_of_a_directory_is_another_store() {
        let (env, disk, _clock) = sim::env(1);
        let first = name(&env, PATH);
        assert_eq!(name(&env, PATH), first);
        disk.plant(Path::new("/copy/store"), &bytes(&disk, PATH));
        let copy = name(&env, "/copy/store");
        assert!(copy != first && name(&env, "/copy/store") == copy);
        assert_eq!(name(&env, PATH), first, "the original keeps its name");
        env.disk.rename(Path::new(PATH), Path::new("/data/checkpoints/moved")).expect("room");
        assert_eq!(name(&env, "/data/checkpoints/moved"), first, "it is the same file");
    }

    #[test]
    fn a_name_that_an_earlier_release_wrote_stays() {
        let (env, disk, _clock) = sim::env(1);
        disk.plant(Path::new(PATH), &7_u128.to_le_bytes());
        assert_eq!([(); 2].map(|()| name(&env, PATH)), [7, 7]);
        disk.plant(Path::new("/copy/store"), &bytes(&disk, PATH));
        assert_ne!(name(&env, "/copy/store"), 7, "from then on, copies are told apart");
        disk.plant(Path::new("/odd/store"), b"nothing like a name");
        assert_ne!(name(&env, "/odd/store"), 7);
    }
}
