use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ladoga_env::{Disk, OpenMode};
use ladoga_storage::{StoreFile, TableList};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::error::Error;

/// What stands for the bytes of a file of a node, as long as nobody has read them: two files of one tag are the same file.
///
/// It is a hash of what tells a file from all others and costs one small read: the store, the name, the length, which inode it is
/// and since when, what the manifest says of its keys and versions, and its last bytes, which have checksums. The directory of a
/// node that was rolled back may use a number again; then the inode is another one, or else its birth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u128);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Tag {
    type Err = ();

    fn from_str(text: &str) -> Result<Tag, ()> {
        hex_128(text).map(Tag).ok_or(())
    }
}

pub(crate) fn hex_of_128(number: u128) -> String {
    format!("{number:032x}")
}

/// Exactly 32 hexadecimal digits, in lower case.
pub(crate) fn hex_128(text: &str) -> Option<u128> {
    let is_hex = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Which.
    pub file: StoreFile,
    /// Its length.
    pub bytes: u64,
    /// What stands for its bytes.
    pub tag: Tag,
}

/// What a checkpoint consists of, as its node tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// What its store is called; a node of an earlier release does not say.
    pub store: Option<u128>,
    /// The tables and their levels.
    pub tables: TableList,
    /// Every file of it.
    pub files: Vec<Listed>,
}

/// No table and no large value is as long.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 40;

/// The last bytes of a file that go into its tag.
const TAIL_BYTES: u64 = 64;

#[derive(Serialize, Deserialize)]
struct ListingJson {
    format: u64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    store: Option<String>,
    tables: String,
    files: Vec<ListingFileJson>,
}

#[derive(Serialize, Deserialize)]
struct ListingFileJson {
    name: String,
    bytes: u64,
    tag: String,
}

const FORMAT: u64 = 1;

impl Listing {
    /// Looks at the files of a checkpoint in `dir`, of a store that is called `store`.
    pub fn of(disk: &dyn Disk, dir: &Path, store: u128, tables: TableList) -> Result<Listing, Error> {
        let mut files = Vec::new();
        for (file, _) in tables.files() {
            let path = dir.join(file.path());
            let open = disk.open(&path, OpenMode::Read).map_err(Error::io("open", &path))?;
            let bytes = open.len().map_err(Error::io("measure", &path))?;
            let identity = open.identity().map_err(Error::io("identify", &path))?;
            let mut tail = vec![0; bytes.min(TAIL_BYTES) as usize];
            open.read_exact_at(&mut tail, bytes.saturating_sub(TAIL_BYTES))
                .map_err(Error::io("read", &path))?;
            let said = match file {
                StoreFile::Table(number) => tables.table_fingerprint(number).unwrap_or(0),
                StoreFile::Blob(_) => 0,
            };
            let mut hash = Xxh3::new();
            hash.update(&store.to_le_bytes());
            for number in [bytes, identity.number, identity.born_ns, said] {
                hash.update(&number.to_le_bytes());
            }
            hash.update(file.path().as_os_str().as_encoded_bytes());
            hash.update(&tail);
            files.push(Listed { file, bytes, tag: Tag(hash.digest128()) });
        }
        Ok(Listing { store: Some(store), tables, files })
    }

    /// As JSON.
    pub fn encode(&self) -> Vec<u8> {
        let file = |listed: &Listed| ListingFileJson {
            name: listed.file.path().display().to_string(),
            bytes: listed.bytes,
            tag: listed.tag.to_string(),
        };
        let files = self.files.iter().map(file).collect();
        let (store, tables) = (self.store.map(hex_of_128), STANDARD.encode(self.tables.encode()));
        let json = ListingJson { format: FORMAT, store, tables, files };
        serde_json::to_vec(&json).expect("text and numbers are JSON")
    }

    /// Reads what a node tells. Every file of the table list is there once, and no other.
    pub fn decode(bytes: &[u8]) -> Result<Listing, Error> {
        let wrong = |what: &str| Error::Source(format!("the list of the files of a checkpoint {what}"));
        let json: ListingJson =
            serde_json::from_slice(bytes).map_err(|error| wrong(&format!("is none: {error}")))?;
        if json.format != FORMAT {
            return Err(wrong(&format!("has format {}, expected {FORMAT}", json.format)));
        }
        let tables = STANDARD.decode(&json.tables).ok().and_then(|bytes| TableList::decode(&bytes));
        let tables = tables.ok_or_else(|| wrong("has no list of tables that fits together"))?;
        let store = json.store.as_deref().map(|text| hex_128(text).ok_or_else(|| wrong("names no store")));
        let store = store.transpose()?;
        let listed = |file: &ListingFileJson| {
            let (file_name, tag) = (StoreFile::parse(&file.name)?, file.tag.parse().ok()?);
            Some(Listed { file: file_name, bytes: file.bytes, tag })
        };
        let files: Option<Vec<Listed>> = json.files.iter().map(listed).collect();
        let files = files.ok_or_else(|| wrong("names a file that is none of a store"))?;
        let is_as_listed = |(listed, (file, _)): (&Listed, (StoreFile, _))| listed.file == file;
        let expected = tables.files();
        if files.len() != expected.len() || !files.iter().zip(expected).all(is_as_listed) {
            return Err(wrong("does not have the files of its tables"));
        }
        let is_long = |listed: &Listed| match listed.file {
            StoreFile::Table(number) => tables.table_bytes(number) == Some(listed.bytes),
            StoreFile::Blob(_) => true,
        };
        if !files.iter().all(is_long) {
            return Err(wrong("has a table of another length than its manifest says"));
        }
        if files.iter().any(|listed| listed.bytes > FILE_BYTES_MAX) {
            return Err(wrong("has a file that is longer than any"));
        }
        // One of them would be taken for the other, and never be read.
        let tags: BTreeSet<Tag> = files.iter().map(|listed| listed.tag).collect();
        if tags.len() != files.len() {
            return Err(wrong("has one tag for two files"));
        }
        Ok(Listing { store, tables, files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_tables::{TABLE_BYTES, table_list};

    fn listing() -> Listing {
        let tables = table_list(&[(7, &[5, 6]), (8, &[])]);
        let of = |(number, (file, _)): (u128, (StoreFile, _))| {
            let bytes = if let StoreFile::Table(_) = file { TABLE_BYTES } else { 9 };
            Listed { file, bytes, tag: Tag(number) }
        };
        let files = (0..).zip(tables.files()).map(of).collect();
        Listing { store: Some(9), tables, files }
    }

    #[track_caller]
    fn expect_refused(change: impl FnOnce(&mut Listing), expected: &str) {
        let mut listing = listing();
        change(&mut listing);
        let refused = Listing::decode(&listing.encode()).expect_err(expected).to_string();
        assert!(refused.contains(expected), "{refused}");
    }

    #[test]
    fn what_no_node_can_have_is_refused() {
        assert_eq!(Listing::decode(&listing().encode()).expect("a listing"), listing());
        expect_refused(|it| it.files[3].tag = it.files[0].tag, "one tag for two files");
        expect_refused(|it| it.files[0].bytes = u64::MAX, "longer than any");
        expect_refused(|it| it.files[2].bytes += 1, "a table of another length");
        expect_refused(|it| it.files.swap(0, 1), "the files of its tables");
        expect_refused(|it| it.files.truncate(it.files.len() - 1), "the files of its tables");
    }
}
