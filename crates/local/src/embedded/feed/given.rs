//! ```text
//! changes := "LADOGAC" format u8 (1), feed u64, reserved u64, check u64             numbers little-endian, never change
//! check   := the xxh3 of what precedes it
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_env::{Disk, OpenMode, Replacement};
use ladoga_model::HybridClock;
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

const NAME: &str = "changes";
const MAGIC: &[u8; 8] = b"LADOGAC\x01";
const FILE_BYTES: usize = 8 + 8 + 8 + 8;

/// What is on disk about the tokens that a feed gave: which feed it is, and a timestamp that no token is after. So no version is
/// given twice on both sides of a token, whatever a power cut takes and whatever the clock shows afterwards. There is no file
/// before somebody follows for the first time.
///
/// Of a replica it is the timestamp from which on deletions are kept. Tokens are of the cluster there.
pub(super) struct Given {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// 0 for none.
    feed: AtomicU64,
    reserved: AtomicU64,
    /// Held while the file is replaced.
    writing: Mutex<()>,
}

impl Given {
    /// What the directory says. A damaged file is as none: the tokens of that feed are refused then.
    pub(super) fn open(disk: &Arc<dyn Disk>, dir: &Path) -> Given {
        let given = Given {
            disk: Arc::clone(disk),
            path: dir.join(NAME),
            feed: AtomicU64::new(0),
            reserved: AtomicU64::new(0),
            writing: Mutex::new(()),
        };
        match read(&**disk, &given.path) {
            Ok(Some((feed, reserved))) => {
                given.feed.store(feed, Ordering::Relaxed);
                given.reserved.store(reserved, Ordering::Relaxed);
            }
            Ok(None) => tracing::warn!(
                path = %given.path.display(),
                "the file is damaged; those who follow changes have to begin anew"
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                path = %given.path.display(), %error,
                "the file cannot be read; those who follow changes have to begin anew"
            ),
        }
        given
    }

    /// Up to which timestamp there are tokens, if there are any, of a directory that another process may still have.
    pub(super) fn reserved_in(disk: &dyn Disk, dir: &Path) -> Option<u64> {
        // What cannot be read is told about once the directory is open.
        let (_, reserved) = read(disk, &dir.join(NAME)).ok()??;
        Some(reserved)
    }

    /// Which feed it is, once it was followed.
    pub(super) fn feed(&self) -> Option<u64> {
        Some(self.feed.load(Ordering::Acquire)).filter(|&feed| feed != 0)
    }

    /// No token is after this timestamp.
    pub(super) fn reserved(&self) -> u64 {
        self.reserved.load(Ordering::Acquire)
    }

    /// Allows for tokens up to this timestamp, durably. A feed that is followed for the first time becomes `new_feed`. May wait
    /// for the disk.
    pub(super) fn reserve(&self, timestamp: u64, new_feed: impl FnOnce() -> u64) -> io::Result<()> {
        let _writing = self.writing.lock();
        if self.feed().is_some() && timestamp <= self.reserved() {
            return Ok(());
        }
        let feed = self.feed().unwrap_or_else(new_feed);
        self.write(feed, timestamp)
    }

    /// The feed is this one from now on, durably, with this timestamp, unless it is already. May wait for the disk.
    pub(super) fn begin(&self, feed: u64, timestamp: impl FnOnce() -> u64) -> io::Result<()> {
        let _writing = self.writing.lock();
        if self.feed() == Some(feed) { Ok(()) } else { self.write(feed, timestamp()) }
    }

    fn write(&self, feed: u64, timestamp: u64) -> io::Result<()> {
        Replacement::of(&*self.disk, &self.path, &encode(feed, timestamp))?;
        self.reserved.store(timestamp, Ordering::Release);
        self.feed.store(feed, Ordering::Release);
        Ok(())
    }
}

fn read(disk: &dyn Disk, path: &Path) -> io::Result<Option<(u64, u64)>> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = [0; FILE_BYTES];
    if file.len()? != FILE_BYTES as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut bytes, 0)?;
    Ok(decode(&bytes))
}

fn encode(feed: u64, reserved: u64) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&feed.to_le_bytes());
    bytes.extend_from_slice(&reserved.to_le_bytes());
    bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; FILE_BYTES]) -> Option<(u64, u64)> {
    let (content, check) = bytes.split_last_chunk::<8>()?;
    if xxh3_64(content) != u64::from_le_bytes(*check) {
        return None;
    }
    let (feed, reserved) = content.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let reserved = u64::from_le_bytes(*reserved.first_chunk()?);
    (reserved <= HybridClock::TIMESTAMP_MAX).then_some((u64::from_le_bytes(*feed), reserved))
}

#[cfg(test)]
mod tests {
    use ladoga_env::sim::{self, PowerCut};

    use super::*;

    const DIR: &str = "/data";

    /// However little of it reaches the disk before a power cut, what was reserved stays so, and the feed the same one.
    #[test]
    fn what_was_reserved_survives_a_power_cut_at_every_operation() {
        for policy in [PowerCut::LoseAll, PowerCut::KeepAll, PowerCut::Random] {
            for cut in 0..20 {
                let (env, disk, _) = sim::env(cut);
                env.disk.create_dir_all(Path::new(DIR)).expect("room");
                env.disk.sync_dir(Path::new("/")).expect("room");
                let given = Given::open(&env.disk, Path::new(DIR));
                disk.cut_power_at_operation(cut, policy);
                let steps = (1..=3).take_while(|step| given.reserve(step * 10, || 7).is_ok()).count() as u64;
                if disk.is_powered() {
                    disk.power_cut(policy);
                }
                disk.power_on();
                let again = Given::open(&env.disk, Path::new(DIR));
                assert!(
                    again.reserved() >= steps * 10,
                    "{policy:?}, {cut}: {} after {steps}",
                    again.reserved()
                );
                assert!(steps == 0 || again.feed() == Some(7), "{policy:?}, {cut}: {:?}", again.feed());
                again.reserve(100, || 8).expect("a sound disk");
                assert_eq!(Given::open(&env.disk, Path::new(DIR)).reserved(), 100, "{policy:?}, {cut}");
            }
        }
    }

    #[test]
    fn a_damaged_file_is_another_feed() {
        let (env, _, _) = sim::env(1);
        env.disk.create_dir_all(Path::new(DIR)).expect("room");
        let given = Given::open(&env.disk, Path::new(DIR));
        assert_eq!((given.feed(), given.reserved()), (None, 0));
        given.reserve(5, || 7).expect("room");
        given.reserve(4, || 8).expect("nothing to do");
        let bytes: [u8; FILE_BYTES] = encode(7, 5).try_into().expect("its length");
        assert_eq!(decode(&bytes), Some((7, 5)));
        let forged = encode(7, HybridClock::TIMESTAMP_MAX + 1);
        assert_eq!(
            decode(&forged.try_into().expect("its length")),
            None,
            "no version could be given after it"
        );
        for at in 0..FILE_BYTES {
            let mut other = bytes;
            other[at] ^= 1;
            assert_eq!(decode(&other), None, "{at}");
            Replacement::of(&*env.disk, &Path::new(DIR).join(NAME), &other).expect("room");
            assert_eq!(Given::open(&env.disk, Path::new(DIR)).feed(), None, "{at}");
        }
        Replacement::of(&*env.disk, &Path::new(DIR).join(NAME), &bytes[..31]).expect("room");
        let again = Given::open(&env.disk, Path::new(DIR));
        again.reserve(9, || 11).expect("room");
        assert_eq!((again.feed(), again.reserved()), (Some(11), 9));
        again.begin(11, || panic!("it is that one")).expect("nothing to do");
        again.begin(12, || 4).expect("room");
        let again = Given::open(&env.disk, Path::new(DIR));
        assert_eq!((again.feed(), again.reserved()), (Some(12), 4));
    }
}
