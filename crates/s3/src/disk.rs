use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use ladoga_env::{Disk, Env, File, Lock, OpenMode};
use parking_lot::Mutex;

use crate::client::{Client, Condition, Content};
use crate::lease::{Lease, RENEW_EVERY};
use crate::object::Object;
use crate::spool::{Spool, Spooled};
use crate::{BadSettings, Place, Settings};

/// The longest object that is sent in one request, by the protocol.
const OBJECT_BYTES_MAX: u64 = 5 << 30;
/// How long files are removed once the server has said that the lock is this process's. If its machine is stopped, clocks and all, the
/// next holder may name them in a backup meanwhile. To ask before each of them would double the requests, and some servers let an object
/// be written once a second only. It would not be enough, either: a machine can stop between the answer and the removal, and no server
/// removes one object on the condition that another one is as it was. So a process that was stopped for three minutes while it pruned may
/// still remove what it gets to in a second by its own clock; `ladoga backup verify` names what is missing.
const REMOVES_FOR: Duration = Duration::from_secs(1);

/// The objects below a place as files below the path that it was given as.
pub struct S3Disk {
    client: Arc<Client>,
    root: PathBuf,
    prefix: String,
    env: Env,
    /// From the first file that is written on.
    spool: Mutex<Option<Arc<Spool>>>,
    /// The lock that this process holds.
    lease: Mutex<Weak<Lease>>,
}

impl S3Disk {
    /// The files below `root`, which is the path of the place. Nothing is asked yet.
    pub fn new(env: &Env, root: &Path, place: &Place, settings: &Settings) -> Result<S3Disk, BadSettings> {
        Ok(S3Disk {
            client: Arc::new(Client::new(&env.clock, settings, place)?),
            root: root.to_path_buf(),
            prefix: place.prefix.clone(),
            env: env.clone(),
            spool: Mutex::default(),
            lease: Mutex::default(),
        })
    }

    /// The key of a file.
    fn key(&self, path: &Path) -> io::Result<String> {
        let wrong = || io::Error::new(ErrorKind::InvalidInput, "it is not below the bucket's place");
        let inside = path.strip_prefix(&self.root).ok().and_then(Path::to_str).ok_or_else(wrong)?;
        Ok(match (self.prefix.as_str(), inside) {
            ("", inside) => inside.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, inside) => format!("{prefix}/{inside}"),
        })
    }

    fn spool(&self) -> io::Result<Arc<Spool>> {
        let mut spool = self.spool.lock();
        if let Some(spool) = &*spool {
            return Ok(Arc::clone(spool));
        }
        let new = Arc::new(Spool::create(Arc::clone(&self.env.disk), self.env.rng.next_u64())?);
        *spool = Some(Arc::clone(&new));
        Ok(new)
    }

    fn objects(&self, dir: &Path) -> io::Result<Vec<(String, Option<u64>)>> {
        let key = self.key(dir)?;
        let prefix = if key.is_empty() { key } else { key + "/" };
        self.client.list(&prefix)
    }

    /// Fails if the lock that this process has taken is not its own any more, as far as that was known so long ago at most.
    fn may_change(&self, path: &Path, age_max: Duration) -> io::Result<()> {
        let Some(lease) = self.lease.lock().upgrade() else { return Ok(()) };
        lease.check(if is_manifest(path) { Duration::ZERO } else { age_max })
    }
}

/// What is not complete yet.
fn is_new(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("new"))
}

/// What says which other files there are. One that names what another process has swept is worse than the request that it costs to know.
fn is_manifest(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("json"))
}

fn unsupported<T>(what: &'static str) -> io::Result<T> {
    Err(io::Error::new(ErrorKind::Unsupported, what))
}

impl Disk for S3Disk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        if is_new(path) {
            return self.spool()?.open(path, mode);
        }
        match mode {
            OpenMode::Read => Ok(Arc::new(Object::open(&self.client, self.key(path)?)?)),
            OpenMode::ReadWrite | OpenMode::CreateNew => unsupported("objects are written as a whole"),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(self.objects(dir)?.into_iter().map(|(name, _)| name).collect())
    }

    fn list_lengths(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        // To ask for each of them would take a request each.
        let length = |(name, bytes): (String, Option<u64>)| Some((name, bytes?));
        Ok(self.objects(dir)?.into_iter().filter_map(length).collect())
    }

    fn create_dir_all(&self, _: &Path) -> io::Result<()> {
        // Keys have slashes, and buckets no directories.
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if !is_new(from) || is_new(to) {
            return unsupported("objects keep their names");
        }
        let spool = self.spool()?;
        let content = Spooled::of(spool.open(from, OpenMode::Read)?)?;
        let bytes = content.bytes();
        if bytes > OBJECT_BYTES_MAX {
            return Err(io::Error::new(
                ErrorKind::FileTooLarge,
                format!("{bytes} bytes, expected at most 5 GiB"),
            ));
        }
        self.may_change(to, RENEW_EVERY)?;
        self.client.put(&self.key(to)?, (&content, content.crc32c()?), Condition::Always)?;
        spool.remove(from)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        if is_new(path) {
            match self.spool()?.remove(path) {
                // Not one of ours: somebody has copied it into the bucket.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                removed => return removed,
            }
        }
        self.may_change(path, REMOVES_FOR)?;
        self.client.delete(&self.key(path)?)
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        unsupported("objects have one name")
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        // What a server has acknowledged is durable.
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let nonce = format!("{:016x}{:016x}", self.env.rng.next_u64(), self.env.rng.next_u64());
        let (lease, held) = Lease::take(&self.client, &self.env.clock, self.key(path)?, nonce)?;
        *self.lease.lock() = Arc::downgrade(&lease);
        Ok(Box::new(held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(text: &str) -> S3Disk {
        let env = ladoga_env::real::env().expect("an environment");
        let place = Place::parse(Path::new(text)).expect("a place");
        let settings =
            Settings::of(|name| (name != "AWS_CA_BUNDLE").then(|| "http://127.0.0.1:1".to_owned()))
                .expect("settings");
        S3Disk::new(&env, Path::new(text), &place, &settings).expect("a disk")
    }

    #[test]
    fn a_file_is_an_object_below_the_place() {
        for (root, path, key) in [
            ("s3://lake", "s3://lake/files/a", "files/a"),
            ("s3://lake/deep", "s3://lake/deep/files/a", "deep/files/a"),
            ("s3://lake/deep", "s3://lake/deep", "deep"),
            ("s3://lake", "s3://lake", ""),
        ] {
            assert_eq!(disk(root).key(Path::new(path)).expect("a key"), key, "{path}");
        }
        assert!(disk("s3://lake/deep").key(Path::new("/etc/passwd")).is_err());
    }

    #[test]
    fn what_is_not_complete_is_on_this_machine() {
        let disk = disk("s3://lake");
        let path = Path::new("s3://lake/files/a.new");
        disk.open(path, OpenMode::CreateNew).expect("a file").write_all_at(b"abc", 0).expect("room");
        let again = disk.open(path, OpenMode::CreateNew).err().expect("it is there");
        assert_eq!(again.kind(), ErrorKind::AlreadyExists);
        assert_eq!(disk.open(path, OpenMode::Read).expect("it").len().expect("its length"), 3);
        disk.remove(path).expect("it was there");
        let gone = disk.open(path, OpenMode::Read).err().expect("it is gone");
        assert_eq!(gone.kind(), ErrorKind::NotFound);
    }
}
