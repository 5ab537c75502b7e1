use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ladoga_storage::{StoreFile, TableList};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::{FORMAT, StoredName};
use crate::error::Error;
use crate::listing::hex_128;

/// A backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// Its name, by which backups sort.
    pub id: String,
    /// When it began, in milliseconds since 1970, by the clock of who took it: what was acknowledged before is in it.
    pub begun_ms: u64,
    /// When it was complete.
    pub ended_ms: u64,
    /// All nodes of the cluster, by their URLs; none of a node on its own.
    pub cluster: Vec<String>,
    /// Writes that at least so many nodes acknowledged are in it.
    pub ack: u32,
    /// The nodes whose own copy is not in it.
    pub missing: Vec<Missing>,
    /// What is in it of each node.
    pub nodes: Vec<NodeBackup>,
}

/// A node that is not in a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Which.
    pub url: String,
    /// Why not.
    pub why: String,
}

/// What a backup has of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeBackup {
    /// Where the node was.
    pub url: String,
    /// When its checkpoint was complete, in milliseconds since 1970, by its clock.
    pub taken_ms: u64,
    /// Its tables and their levels.
    pub tables: TableList,
    /// Its files, in the order of [`TableList::files`].
    pub files: Vec<StoredFile>,
}

/// A file of a node, and where it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredFile {
    /// What it is to the node.
    pub file: StoreFile,
    /// Its length.
    pub bytes: u64,
    /// How it is called in the repository.
    pub stored: StoredName,
}

impl NodeBackup {
    /// The length of all its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add)
    }
}

#[derive(Serialize, Deserialize)]
struct Json {
    format: u64,
    id: String,
    begun_ms: u64,
    ended_ms: u64,
    #[serde(default)]
    cluster: Vec<String>,
    ack: u32,
    #[serde(default)]
    missing: Vec<Missing>,
    nodes: Vec<JsonNode>,
}

#[derive(Serialize, Deserialize)]
struct JsonNode {
    url: String,
    taken_ms: u64,
    tables: String,
    files: Vec<JsonFile>,
}

#[derive(Serialize, Deserialize)]
struct JsonFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    level: Option<usize>,
    bytes: u64,
    stored: String,
}

/// What stands before the checksum, in a last line of its own: so a person can read the rest with any tool.
const CHECKSUM: &str = "\nxxh3 ";

impl Backup {
    /// The nodes of all its parts have so many bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(NodeBackup::bytes).fold(0, u64::saturating_add)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let json = Json {
            format: FORMAT,
            id: self.id.clone(),
            begun_ms: self.begun_ms,
            ended_ms: self.ended_ms,
            cluster: self.cluster.clone(),
            ack: self.ack,
            missing: self.missing.clone(),
            nodes: self.nodes.iter().map(json_of).collect(),
        };
        let mut bytes = serde_json::to_vec(&json).expect("text and numbers are JSON");
        let checksum = xxh3_128(&bytes);
        bytes.extend_from_slice(format!("{CHECKSUM}{checksum:032x}\n").as_bytes());
        bytes
    }

    pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<Backup, Error> {
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let line_bytes = CHECKSUM.len() + 32 + 1;
        let (json, line) = bytes.split_at(bytes.len().saturating_sub(line_bytes));
        let line = str::from_utf8(line).ok().and_then(|line| line.strip_prefix(CHECKSUM));
        let said = line.and_then(|line| line.strip_suffix('\n')).and_then(hex_128);
        let found = xxh3_128(json);
        if said != Some(found) {
            let said = said.map_or_else(|| "none".to_owned(), |said| format!("{said:032x}"));
            return Err(damaged(format!(
                "its bytes have the checksum {found:032x}, and its last line has {said}"
            )));
        }
        let json: Json = serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
        if json.format > FORMAT {
            return Err(Error::NewerFormat { path: path.to_owned(), found: json.format, supported: FORMAT });
        }
        let nodes: Option<Vec<NodeBackup>> = json.nodes.iter().map(node_of).collect();
        let nodes = nodes.ok_or_else(|| damaged("its files do not fit together".to_owned()))?;
        let Json { id, begun_ms, ended_ms, cluster, ack, missing, .. } = json;
        Ok(Backup { id, begun_ms, ended_ms, cluster, ack, missing, nodes })
    }
}

fn json_of(node: &NodeBackup) -> JsonNode {
    let levels = node.tables.files();
    let file = |(file, (_, level)): (&StoredFile, (StoreFile, Option<usize>))| JsonFile {
        name: file.file.path().display().to_string(),
        level,
        bytes: file.bytes,
        stored: file.stored.to_string(),
    };
    JsonNode {
        url: node.url.clone(),
        taken_ms: node.taken_ms,
        tables: STANDARD.encode(node.tables.encode()),
        files: node.files.iter().zip(levels).map(file).collect(),
    }
}

fn node_of(json: &JsonNode) -> Option<NodeBackup> {
    let tables = TableList::decode(&STANDARD.decode(&json.tables).ok()?)?;
    let expected = tables.files();
    if expected.len() != json.files.len() {
        return None;
    }
    let stored = |(found, (file, _)): (&JsonFile, (StoreFile, Option<usize>))| {
        let stored = StoredFile { file, bytes: found.bytes, stored: found.stored.parse().ok()? };
        (StoreFile::parse(&found.name)? == file).then_some(stored)
    };
    let files: Option<Vec<StoredFile>> = json.files.iter().zip(expected).map(stored).collect();
    Some(NodeBackup { url: json.url.clone(), taken_ms: json.taken_ms, tables, files: files? })
}
