//! What a node must not forget beside its cells: the settlement's file, and a file for each hint.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ladoga_cluster::{Cell, Content, Durable};
use ladoga_env::{Disk, OpenMode, Replacement};
use ladoga_model::{Stamp, Version};
use xxhash_rust::xxh3::xxh3_64;

use crate::checker::Key;

const STATE: &str = "/state";
const HINTS: &str = "/hints";

/// What a hint is about, as it is kept.
const TOMBSTONE: u64 = 0;
const VALUE: u64 = 1;
/// A value that stays with the replicas that have it.
const LARGE: u64 = 2;

/// The files of a process.
pub(crate) struct Keep {
    disk: Arc<dyn Disk>,
}

/// A hint as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptHint {
    pub(crate) key: Key,
    pub(crate) cell: Cell<Vec<u8>>,
}

impl Keep {
    pub(crate) fn open(disk: Arc<dyn Disk>) -> io::Result<Keep> {
        disk.create_dir_all(Path::new(STATE))?;
        disk.create_dir_all(Path::new(HINTS))?;
        Ok(Keep { disk })
    }

    pub(crate) fn durable(&self) -> io::Result<Option<Durable>> {
        let path = Path::new(STATE).join("durable");
        let Some(bytes) = self.read(&path)? else { return Ok(None) };
        let durable = Durable::decode(&bytes);
        assert!(durable.is_some(), "{} is not what was written", path.display());
        Ok(durable)
    }

    pub(crate) fn keep_durable(&self, durable: &Durable) -> io::Result<()> {
        self.replace(&Path::new(STATE).join("durable"), &durable.encode())
    }

    pub(crate) fn keep_hint(&self, peer: usize, number: u64, hint: &KeptHint) -> io::Result<()> {
        let Stamp { version, copies, .. } = hint.cell.stamp;
        let value =
            if let Content::Value(value) = &hint.cell.content { Some(value.as_slice()) } else { None };
        let mut bytes = Vec::new();
        for word in [
            version.timestamp,
            u64::from(version.node),
            u64::from(copies),
            match hint.cell.content {
                Content::Tombstone => TOMBSTONE,
                Content::Value(_) => VALUE,
                Content::Digest => LARGE,
            },
            hint.key.len() as u64,
        ] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&hint.key);
        bytes.extend_from_slice(value.unwrap_or_default());
        self.replace(&Path::new(HINTS).join(format!("{peer}-{number:08}")), &bytes)
    }

    /// All hints for a peer, in the order of their numbers.
    pub(crate) fn hints(&self, peer: usize) -> io::Result<Vec<(u64, KeptHint)>> {
        let mut hints = Vec::new();
        for name in self.disk.list(Path::new(HINTS))? {
            let Some((of, number)) = name.split_once('-') else { continue };
            let Ok(number) = number.parse() else { continue };
            if of == peer.to_string()
                && let Some(bytes) = self.read(&Path::new(HINTS).join(&name))?
            {
                hints.push((number, decode_hint(&bytes)));
            }
        }
        hints.sort_by_key(|(number, _)| *number);
        Ok(hints)
    }

    /// Forgetting need not be durable: a hint that comes back is delivered again.
    pub(crate) fn forget_hint(&self, peer: usize, number: u64) -> io::Result<()> {
        self.disk.remove(&Path::new(HINTS).join(format!("{peer}-{number:08}")))
    }

    /// The content of a file; none where it is not there.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        let file = match self.disk.open(path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let content = bytes.split_off(8);
        assert_eq!(word(&bytes), xxh3_64(&content), "{} is not what was written", path.display());
        Ok(Some(content))
    }

    /// Replaces a file as a whole, durably.
    fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let mut bytes = xxh3_64(content).to_le_bytes().to_vec();
        bytes.extend_from_slice(content);
        Ok(Replacement::of(&*self.disk, path, &bytes)?)
    }
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

fn decode_hint(bytes: &[u8]) -> KeptHint {
    let words: Vec<u64> = bytes[..40].chunks(8).map(word).collect();
    let (key, value) = bytes[40..].split_at(words[4] as usize);
    let version = Version { timestamp: words[0], node: words[1] as u16 };
    let stamp = Stamp { copies: words[2] as u8, ..Stamp::new(version) };
    let content = match words[3] {
        TOMBSTONE => Content::Tombstone,
        VALUE => Content::Value(value.to_vec()),
        LARGE => Content::Digest,
        kind => panic!("a hint of the kind {kind}, expected one of those that are kept"),
    };
    KeptHint { key: key.to_vec(), cell: Cell { stamp, content } }
}
