use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use ladoga_storage::LargeValue;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::listing::{FILE_BYTES_MAX, hex_128};
use crate::log_position::ChainName;
use crate::repository::{MANIFEST_BYTES_MAX, Repository, Writing, is_missing, sealed, unsealed};

/// Segments of a log that follow each other without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// What it is called.
    pub name: ChainName,
    /// Where its node was.
    pub url: String,
    /// Of a node of a cluster, which of its directories it is of, as the other nodes count them. If it is another one, the node has lost
    /// some of what it acknowledged.
    pub incarnation: Option<u64>,
    /// The first group of its first segment.
    pub first_sequence: u64,
    /// Everything is in it that was acknowledged up to then, in milliseconds since 1970 by the clock of the node; 0 if that is not
    /// known.
    pub reaches_ms: u64,
    /// Its segments, oldest first.
    pub segments: Vec<StoredSegment>,
}

/// A segment in the repository: its header and its groups, byte by byte, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSegment {
    /// Its number.
    pub number: u64,
    /// Its first group.
    pub first_sequence: u64,
    /// The first group of the next one.
    pub end_sequence: u64,
    /// Its length.
    pub bytes: u64,
    /// XXH3 of its bytes, which is its name.
    pub hash: u128,
    /// The lowest timestamp of its cells.
    pub oldest: u64,
    /// The large values that it names.
    pub larges: Vec<StoredLarge>,
}

/// A large value that a segment names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoredLarge {
    /// As the segment names it.
    pub value: LargeValue,
    /// The length of its file.
    pub bytes: u64,
    /// XXH3 of its file, which is its name.
    pub hash: u128,
}

#[derive(Serialize, Deserialize)]
struct JsonChain {
    format: u64,
    chain: String,
    url: String,
    /// Text: it does not fit into the numbers of all readers.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    incarnation: Option<String>,
    first_sequence: u64,
    reaches_ms: u64,
    segments: Vec<JsonSegment>,
}

#[derive(Serialize, Deserialize)]
struct JsonSegment {
    number: u64,
    end_sequence: u64,
    bytes: u64,
    hash: String,
    oldest: u64,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    larges: Vec<JsonLarge>,
}

#[derive(Serialize, Deserialize)]
struct JsonLarge {
    file: u64,
    value_bytes: u64,
    crc: u32,
    bytes: u64,
    hash: String,
}

const FORMAT: u64 = 1;

/// What to do if the list of a chain would be too long.
const TOO_LONG_A_LOG: &str = "run `ladoga backup create`, then `ladoga backup prune`, which shortens it";

impl Chain {
    /// The first group that is not in it.
    pub fn end_sequence(&self) -> u64 {
        self.segments.last().map_or(self.first_sequence, |last| last.end_sequence)
    }

    /// Whether all groups from there on are in it, up to its end.
    pub fn has_all_from(&self, sequence: u64) -> bool {
        (self.first_sequence..=self.end_sequence()).contains(&sequence)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let large = |large: &StoredLarge| JsonLarge {
            file: large.value.file,
            value_bytes: large.value.bytes,
            crc: large.value.crc,
            bytes: large.bytes,
            hash: format!("{:032x}", large.hash),
        };
        let segment = |segment: &StoredSegment| JsonSegment {
            number: segment.number,
            end_sequence: segment.end_sequence,
            bytes: segment.bytes,
            hash: format!("{:032x}", segment.hash),
            oldest: segment.oldest,
            larges: segment.larges.iter().map(large).collect(),
        };
        let json = JsonChain {
            format: FORMAT,
            chain: self.name.to_string(),
            url: self.url.clone(),
            incarnation: self.incarnation.map(|incarnation| incarnation.to_string()),
            first_sequence: self.first_sequence,
            reaches_ms: self.reaches_ms,
            segments: self.segments.iter().map(segment).collect(),
        };
        sealed(serde_json::to_vec(&json).expect("text and numbers are JSON"))
    }

    pub(crate) fn decode(path: &Path, bytes: &[u8]) -> Result<Chain, Error> {
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let json: JsonChain =
            serde_json::from_slice(unsealed(path, bytes)?).map_err(|error| damaged(error.to_string()))?;
        let name = json.chain.parse().map_err(|()| damaged("it has no name".to_owned()))?;
        if json.url.chars().any(char::is_control) {
            return Err(damaged("its URL is none".to_owned()));
        }
        let incarnation = json.incarnation.as_deref().map(str::parse).transpose();
        let mut chain = Chain {
            name,
            url: json.url,
            incarnation: incarnation.map_err(|_| damaged("its incarnation is none".to_owned()))?,
            first_sequence: json.first_sequence,
            reaches_ms: json.reaches_ms,
            segments: Vec::with_capacity(json.segments.len()),
        };
        for found in &json.segments {
            let first_sequence = chain.end_sequence();
            let segment = segment_of(found, first_sequence);
            let number = found.number;
            chain.segments.push(segment.ok_or_else(|| damaged(format!("its segment {number} is none")))?);
        }
        Ok(chain)
    }
}

fn segment_of(json: &JsonSegment, first_sequence: u64) -> Option<StoredSegment> {
    let large = |large: &JsonLarge| {
        let value = LargeValue { file: large.file, bytes: large.value_bytes, crc: large.crc };
        let is_long = large.bytes <= FILE_BYTES_MAX;
        is_long.then_some(StoredLarge { value, bytes: large.bytes, hash: hex_128(&large.hash)? })
    };
    let &JsonSegment { number, end_sequence, bytes, oldest, .. } = json;
    let larges = json.larges.iter().map(large).collect::<Option<Vec<_>>>()?;
    let (hash, is_possible) =
        (hex_128(&json.hash)?, first_sequence < end_sequence && bytes <= FILE_BYTES_MAX);
    is_possible.then_some(StoredSegment { number, first_sequence, end_sequence, bytes, hash, oldest, larges })
}

/// Where a stored segment or large value is, by what is in it.
pub(crate) fn segment_path(repository: &Repository, hash: u128) -> PathBuf {
    repository.log_dir().join(format!("{hash:032x}.wal"))
}

pub(crate) fn large_path(repository: &Repository, hash: u128) -> PathBuf {
    repository.log_dir().join(format!("{hash:032x}.blob"))
}

impl Repository {
    fn chain_path(&self, name: ChainName) -> PathBuf {
        self.log_dir().join(format!("{name}.json"))
    }

    /// The names of all that is known of logs.
    pub(crate) fn log_files(&self) -> Result<Vec<String>, Error> {
        let dir = self.log_dir();
        match self.disk().list(&dir) {
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            names => names.map_err(Error::io("list", &dir)),
        }
    }

    /// The names of all chains, by store and in their order.
    pub fn chains(&self) -> Result<Vec<ChainName>, Error> {
        let names = self.log_files()?;
        let chain = |name: &String| name.strip_suffix(".json").and_then(|name| name.parse().ok());
        let mut chains: Vec<ChainName> = names.iter().filter_map(chain).collect();
        chains.sort_unstable();
        Ok(chains)
    }

    /// Reads what is known of a chain; `None` if there is none of that name.
    pub fn chain(&self, name: ChainName) -> Result<Option<Chain>, Error> {
        let path = self.chain_path(name);
        let bytes = match self.read_small(&path, MANIFEST_BYTES_MAX) {
            Err(Error::Io { error, .. }) if is_missing(&error) => return Ok(None),
            bytes => bytes?,
        };
        let chain = Chain::decode(&path, &bytes)?;
        if chain.name != name {
            return Err(Error::Damaged { path, what: format!("it says that it is {}", chain.name) });
        }
        Ok(Some(chain))
    }

    /// Reads a chain that is listed, for who keeps others from removing it. A server that does not find it for once must not have it taken
    /// for none: another one would be begun, or its files removed.
    pub(crate) fn listed_chain(&self, _: &Writing, name: ChainName) -> Result<Chain, Error> {
        self.chain(name)?.ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::NotFound, "it is listed, and was not found");
            Error::Io { operation: "open", path: self.chain_path(name), error }
        })
    }

    /// Writes down what is in a chain. All of its files are there.
    pub(crate) fn publish_chain(&self, _: &Writing, chain: &Chain) -> Result<(), Error> {
        let dir = self.log_dir();
        self.disk().sync_dir(&dir).map_err(Error::io("sync directory", &dir))?;
        self.write_list(&self.chain_path(chain.name), &chain.encode(), TOO_LONG_A_LOG)
    }

    pub(crate) fn remove_chain(&self, name: ChainName) -> Result<(), Error> {
        let path = self.chain_path(name);
        self.disk().remove(&path).map_err(Error::io("remove", &path))
    }
}

/// The files of segments, by their names.
pub(crate) fn files_of<'c>(chains: impl IntoIterator<Item = &'c Chain>) -> BTreeSet<String> {
    let segments = chains.into_iter().flat_map(|chain| &chain.segments);
    let files = segments.flat_map(|segment| {
        let larges = segment.larges.iter().map(|large| format!("{:032x}.blob", large.hash));
        larges.chain([format!("{:032x}.wal", segment.hash)])
    });
    files.collect()
}
