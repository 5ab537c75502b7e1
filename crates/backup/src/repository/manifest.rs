use std::collections::BTreeSet;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ladoga_storage::{StoreFile, TableList};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::{FORMAT, StoredName};
use crate::error::Error;
use crate::listing::{FILE_BYTES_MAX, hex_128, hex_of_128};
use crate::log_position::LogPosition;

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
    /// What its store is called, wherever the node is; an earlier release does not say.
    pub store: Option<u128>,
    /// When its checkpoint was complete, in milliseconds since 1970, by its clock.
    pub taken_ms: u64,
    /// Its tables and their levels.
    pub tables: TableList,
    /// Its files, in the order of [`TableList::files`].
    pub files: Vec<StoredFile>,
    /// Where in the log the files end, if the node keeps its log.
    pub log: Option<LogPosition>,
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

    /// How much of a manifest says what is in it.
    pub(crate) fn list_bytes(&self) -> u64 {
        serde_json::to_vec(&json_of(self)).expect("text and numbers are JSON").len() as u64
    }
}

/// What every format begins with.
#[derive(Deserialize)]
struct JsonFormat {
    format: u64,
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
    #[serde(skip_serializing_if = "Option::is_none", default)]
    store: Option<String>,
    taken_ms: u64,
    tables: String,
    files: Vec<JsonFile>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    log: Option<JsonPosition>,
}

/// A sequence does not fit into the numbers of all readers.
#[derive(Serialize, Deserialize)]
struct JsonPosition {
    chain: String,
    sequence: String,
}

#[derive(Serialize, Deserialize)]
struct JsonFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    level: Option<usize>,
    bytes: u64,
    stored: String,
}

/// JSON, and its checksum.
pub(crate) fn sealed(mut json: Vec<u8>) -> Vec<u8> {
    let checksum = xxh3_128(&json);
    json.extend_from_slice(format!("{CHECKSUM}{checksum:032x}\n").as_bytes());
    json
}

/// JSON of a format that is known, whose checksum is right.
pub(crate) fn unsealed<'b>(path: &Path, bytes: &'b [u8]) -> Result<&'b [u8], Error> {
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
    // The format first: a later one may have other members.
    let JsonFormat { format } = serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
    match format {
        FORMAT => Ok(json),
        found if found > FORMAT => {
            Err(Error::NewerFormat { path: path.to_owned(), found, supported: FORMAT })
        }
        found => Err(damaged(format!("its format is {found}, expected {FORMAT}"))),
    }
}

/// What stands before the checksum, in a last line of its own: so a person can read the rest with any tool.
const CHECKSUM: &str = "\nxxh3 ";

impl Backup {
    /// The nodes of all its parts have so many bytes.
    pub fn bytes(&self) -> u64 {
        self.nodes.iter().map(NodeBackup::bytes).fold(0, u64::saturating_add)
    }

    /// Its nodes, by their URLs, in words.
    pub fn urls(&self) -> String {
        let urls: Vec<&str> = self.nodes.iter().map(|node| &*node.url).collect();
        urls.join(" ")
    }

    /// Whether it is of this node, or of its cluster.
    pub(crate) fn is_of_node(&self, url: &str) -> bool {
        self.nodes.iter().any(|node| node.url == url) || self.cluster.iter().any(|node| node == url)
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
        sealed(serde_json::to_vec(&json).expect("text and numbers are JSON"))
    }

    pub(super) fn decode(path: &Path, bytes: &[u8]) -> Result<Backup, Error> {
        let damaged = |what: String| Error::Damaged { path: path.to_owned(), what };
        let json = unsealed(path, bytes)?;
        let json: Json = serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
        let nodes: Result<Vec<NodeBackup>, String> = json.nodes.iter().map(node_of).collect();
        let Json { id, begun_ms, ended_ms, cluster, ack, missing, .. } = json;
        let nodes = nodes.map_err(damaged)?;
        let backup = Backup { id, begun_ms, ended_ms, cluster, ack, missing, nodes };
        backup.check_nodes().map_err(damaged)?;
        Ok(backup)
    }

    /// Whether its nodes are those of a node on its own, or of a cluster of which no acknowledged write is missing.
    fn check_nodes(&self) -> Result<(), String> {
        let (nodes, missing) = (self.nodes.len(), self.missing.len());
        let is_alone = self.cluster.is_empty();
        if is_alone && (nodes, missing, self.ack) != (1, 0, 1) {
            let ack = self.ack;
            return Err(format!(
                "it is of no cluster, and has {nodes} nodes, {missing} missing ones and an ack of {ack}; expected 1, 0 and 1"
            ));
        }
        let urls = self.nodes.iter().map(|node| &node.url).chain(self.missing.iter().map(|node| &node.url));
        let mut seen = BTreeSet::new();
        for url in urls {
            if url.chars().any(char::is_control) {
                return Err(format!("the name of a node is '{}', expected a URL", url.escape_debug()));
            }
            if !seen.insert(url.as_str()) {
                return Err(format!("it has the node {url} twice"));
            }
        }
        if is_alone {
            return Ok(());
        }
        let all: BTreeSet<&str> = self.cluster.iter().map(String::as_str).collect();
        if all != seen || all.len() != self.cluster.len() {
            return Err("its nodes, and those that are missing, are not the nodes of its cluster".to_owned());
        }
        if missing >= self.ack as usize || self.ack as usize > all.len() {
            let (ack, all) = (self.ack, all.len());
            return Err(format!("its ack is {ack}, and {missing} of {all} nodes are missing"));
        }
        Ok(())
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
        store: node.store.map(hex_of_128),
        taken_ms: node.taken_ms,
        tables: STANDARD.encode(node.tables.encode()),
        files: node.files.iter().zip(levels).map(file).collect(),
        log: node.log.map(|LogPosition { chain, sequence }| JsonPosition {
            chain: chain.to_string(),
            sequence: sequence.to_string(),
        }),
    }
}

fn node_of(json: &JsonNode) -> Result<NodeBackup, String> {
    let tables = STANDARD.decode(&json.tables).ok().and_then(|bytes| TableList::decode(&bytes));
    let tables = tables.ok_or("it has a list of tables that is none, or does not fit together")?;
    let expected = tables.files();
    if expected.len() != json.files.len() {
        let (found, expected) = (json.files.len(), expected.len());
        return Err(format!("it has {found} files of a node, expected the {expected} of its tables"));
    }
    let (mut files, mut names) = (Vec::with_capacity(expected.len()), BTreeSet::new());
    for (found, (file, _)) in json.files.iter().zip(expected) {
        let stored = file_of(found, file, &tables)?;
        if !names.insert(stored.stored) {
            return Err(format!("two files of a node are stored as {}", stored.stored));
        }
        files.push(stored);
    }
    let position = |json: &JsonPosition| {
        Some(LogPosition { chain: json.chain.parse().ok()?, sequence: json.sequence.parse().ok()? })
    };
    let log = match &json.log {
        None => None,
        Some(json) => Some(position(json).ok_or("its place in the log is none")?),
    };
    let store = json.store.as_deref().map(|text| hex_128(text).ok_or("its store has no name"));
    let (url, store) = (json.url.clone(), store.transpose()?);
    Ok(NodeBackup { url, store, taken_ms: json.taken_ms, tables, files, log })
}

/// A file, if it is this one, and as long as its tables say.
fn file_of(found: &JsonFile, file: StoreFile, tables: &TableList) -> Result<StoredFile, String> {
    let (bytes, path) = (found.bytes, file.path());
    if StoreFile::parse(&found.name) != Some(file) {
        let name = found.name.escape_debug();
        return Err(format!("it has a file '{name}', expected {}", path.display()));
    }
    let is_long = match file {
        StoreFile::Table(number) => tables.table_bytes(number) == Some(bytes),
        StoreFile::Blob(_) => true,
    };
    if !is_long || bytes > FILE_BYTES_MAX {
        return Err(format!("{} has {bytes} bytes, which it cannot have", path.display()));
    }
    let wrong =
        |()| format!("{} is stored as '{}', which is no name", path.display(), found.stored.escape_debug());
    Ok(StoredFile { file, bytes, stored: found.stored.parse().map_err(wrong)? })
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
