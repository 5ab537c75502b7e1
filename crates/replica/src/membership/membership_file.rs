//! The list of nodes that a data directory belongs to, which of them it is, and what the file itself is known by, in the
//! file `nodes`.
//!
//! ```text
//! nodes := "ladoga-nodes 2\n", "epoch " number "\n", "store " hex "\n", "own " url "\n", "file " hex " " hex "\n",
//!          ("node " weight " " url "\n")*, "crc32c " hex "\n"                    crc32c: of all lines before
//! ```
//!
//! `file` is the number of the file's inode and when it was born: by that a copy is known, be it of another node's
//! directory, or one that was brought back from a backup.
//!
//! Written whole: to `nodes.new`, synced, renamed, the directory synced.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use ladoga_cluster::{Difference, Incarnation, Node, NodeId, NodeList};
use ladoga_env::{Disk, Env, FileIdentity, OpenMode, Replacement};

use super::durable;

const NAME: &str = "nodes";
const FORMAT: &str = "2";
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What a data directory says about its cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MembershipFile {
    /// All nodes.
    pub nodes: NodeList,
    /// The number of the data directory, which no other has.
    pub store: u64,
    /// Which of the nodes it is the directory of.
    pub own: NodeId,
    /// Whether the directory is the one that was written.
    pub provenance: Provenance,
}

/// Where the files of a data directory come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// This node has written them.
    Own,
    /// They were copied to another place, or restored from a backup; or they only have the same bytes.
    Copied,
    /// They were those of another node.
    Foreign {
        /// Which one.
        node: NodeId,
    },
}

/// Why a data directory is not this node's.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    /// It was started with other nodes.
    #[error(
        "the nodes in {path}. The two lists differ; compared with --cluster, that of the data directory: {difference}. \
         Restart with the original list. To change the list, stop all nodes, remove that file on each, and start them \
         with the new list: docs/cluster.md says what to wait for",
        path = path.display()
    )]
    OtherNodes {
        /// The file with the list.
        path: PathBuf,
        /// How it differs.
        difference: Difference,
    },
    /// It was started with nodes, and now with none.
    #[error(
        "the nodes in {path}: {nodes}. Restart with that list, or remove that file to take the node out of its cluster for good",
        path = path.display()
    )]
    NoNodes {
        /// The file with the list.
        path: PathBuf,
        /// The nodes.
        nodes: String,
    },
    /// The file is damaged.
    #[error("{path} is damaged: {what}", path = path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file cannot be read or written.
    #[error("the list of nodes in {path} cannot be read or written: {error}", path = path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
}

impl MembershipFile {
    /// Checks that the nodes are those that the directory was started with; a directory that is new, or was a node on
    /// its own, takes any. Opens nothing else, and changes nothing.
    pub fn check(
        disk: &dyn Disk,
        dir: &Path,
        wanted: Option<&NodeList>,
    ) -> Result<Option<MembershipFile>, MembershipError> {
        let path = dir.join(NAME);
        let Some(kept) = read(disk, &path)? else { return Ok(None) };
        let Some(wanted) = wanted else {
            let nodes = kept.nodes.iter().map(|(_, node)| node.name.as_str()).collect::<Vec<_>>().join(",");
            return Err(MembershipError::NoNodes { path, nodes });
        };
        match wanted.difference(&kept.nodes) {
            Some(difference) => Err(MembershipError::OtherNodes { path, difference }),
            None => Ok(Some(kept)),
        }
    }

    /// Checks again, now that the directory is locked by this process, and writes the list if there was none.
    pub fn keep(
        env: &Env,
        dir: &Path,
        nodes: &NodeList,
        own: NodeId,
    ) -> Result<MembershipFile, MembershipError> {
        if let Some(kept) = MembershipFile::check(&*env.disk, dir, Some(nodes))? {
            let of_another = Provenance::Foreign { node: kept.own };
            let provenance = if kept.own == own { kept.provenance } else { of_another };
            return Ok(MembershipFile { own, provenance, ..kept });
        }
        let kept = MembershipFile {
            nodes: nodes.clone(),
            store: Incarnation::first(env.rng.next_u64()).0,
            own,
            provenance: Provenance::Own,
        };
        let path = dir.join(NAME);
        kept.write(&*env.disk, dir).map_err(|error| MembershipError::Io { path, error })?;
        Ok(kept)
    }

    /// Replaces the file in the directory: from now on the directory is this node's.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        let replacement = Replacement::begin(disk, &dir.join(NAME))?;
        replacement.fill(self.to_text(replacement.file().identity()?).as_bytes())?;
        Ok(replacement.publish(disk)?)
    }

    fn to_text(&self, file: FileIdentity) -> String {
        let (epoch, own) = (self.nodes.epoch(), self.nodes.name(self.own));
        let mut text =
            format!("ladoga-nodes {FORMAT}\nepoch {epoch}\nstore {:016x}\nown {own}\n", self.store);
        let FileIdentity { number, born_ns } = file;
        let _ = writeln!(text, "file {number:x} {born_ns:x}");
        for (_, node) in self.nodes.iter() {
            // Writing to a string does not fail.
            let _ = writeln!(text, "node {} {}", node.weight, node.name);
        }
        let crc = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc32c {crc:08x}");
        text
    }

    fn of_text(text: &str, file: FileIdentity) -> Result<MembershipFile, String> {
        let expected = |what: &str| format!("{what} was expected");
        let (lines, crc) = text.rsplit_once("crc32c ").ok_or_else(|| expected("a checksum"))?;
        let found = u32::from_str_radix(crc.trim_end(), 16).map_err(|_| expected("a checksum"))?;
        let computed = crc32c::crc32c(lines.as_bytes());
        if computed != found {
            return Err(format!("its checksum is {found:08x}, expected {computed:08x}"));
        }
        let mut lines = lines.lines();
        let mut field = |name: &'static str| {
            let value = lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));
            value.map(str::to_owned).ok_or_else(|| expected(name))
        };
        let format = field("ladoga-nodes")?;
        if format != FORMAT {
            return Err(format!("it has the format version {format}, expected {FORMAT}"));
        }
        let epoch = field("epoch")?.parse().map_err(|_| expected("an epoch"))?;
        let store = u64::from_str_radix(&field("store")?, 16).map_err(|_| expected("a store"))?;
        let own = field("own")?;
        let written = field("file")?;
        let written = written.split_once(' ').and_then(|(number, born_ns)| {
            let hex = |text| u64::from_str_radix(text, 16).ok();
            Some(FileIdentity { number: hex(number)?, born_ns: hex(born_ns)? })
        });
        let written = written.ok_or_else(|| expected("what the file is known by"))?;
        let nodes = lines.map(|line| {
            let (weight, name) = line.strip_prefix("node ")?.split_once(' ')?;
            Some(Node { name: name.to_owned(), weight: weight.parse().ok()? })
        });
        let nodes = nodes.collect::<Option<Vec<_>>>().ok_or_else(|| expected("a node"))?;
        let nodes = NodeList::at(epoch, nodes).map_err(|error| error.to_string())?;
        let own = nodes
            .find(&own)
            .ok_or_else(|| format!("it belongs to {own}, which is not in its list of nodes"))?;
        let provenance = if written == file { Provenance::Own } else { Provenance::Copied };
        Ok(MembershipFile { nodes, store, own, provenance })
    }
}

/// What is wrong with the files that a node of a cluster keeps beside its store, one line each; changes nothing.
pub(crate) fn check_files(disk: &dyn Disk, dir: &Path) -> Vec<String> {
    let nodes = read(disk, &dir.join(NAME)).err().map(|error| error.to_string());
    let stability = durable::read(disk, dir).err().map(|error| error.to_string());
    nodes.into_iter().chain(stability).collect()
}

fn read(disk: &dyn Disk, path: &Path) -> Result<Option<MembershipFile>, MembershipError> {
    let (text, file) = match read_text(disk, path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(MembershipError::Io { path: path.to_path_buf(), error }),
    };
    let kept = text.and_then(|text| MembershipFile::of_text(&text, file));
    kept.map(Some).map_err(|what| MembershipError::Damaged { path: path.to_path_buf(), what })
}

fn read_text(disk: &dyn Disk, path: &Path) -> io::Result<(Result<String, String>, FileIdentity)> {
    let file = disk.open(path, OpenMode::Read)?;
    let identity = file.identity()?;
    let bytes = file.len()?;
    if bytes > FILE_BYTES_MAX {
        return Ok((Err(format!("it has {bytes} bytes, expected at most {FILE_BYTES_MAX}")), identity));
    }
    let mut buffer = vec![0; bytes as usize];
    file.read_exact_at(&mut buffer, 0)?;
    Ok((String::from_utf8(buffer).map_err(|_| "text was expected".to_owned()), identity))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(names: &[&str]) -> NodeList {
        NodeList::first(names.iter().copied()).expect("a list")
    }

    fn env() -> (Env, PathBuf) {
        let (env, _disk, _clock) = ladoga_env::sim::env(1);
        let dir = PathBuf::from("/data");
        env.disk.create_dir_all(&dir).expect("a directory");
        (env, dir)
    }

    #[test]
    fn a_directory_belongs_to_the_nodes_that_it_was_started_with() {
        let (env, dir) = env();
        let list = nodes(&["http://a", "http://b"]);
        let kept = MembershipFile::keep(&env, &dir, &list, NodeId(1)).expect("a new directory");
        assert_eq!(MembershipFile::keep(&env, &dir, &list, NodeId(1)).expect("the same nodes"), kept);
        let others = nodes(&["http://a", "http://c"]);
        let other = MembershipFile::keep(&env, &dir, &others, NodeId(1)).expect_err("others");
        assert!(other.to_string().contains("http://b") && other.to_string().contains("http://c"), "{other}");
        let none = MembershipFile::check(&*env.disk, &dir, None).expect_err("none");
        assert!(none.to_string().contains("http://a,http://b"), "{none}");
    }

    #[test]
    fn a_copy_is_told_from_what_it_is_a_copy_of() {
        let (env, dir) = env();
        let list = nodes(&["http://a", "http://b"]);
        let kept = MembershipFile::keep(&env, &dir, &list, NodeId(0)).expect("a new directory");
        let provenance =
            |own| MembershipFile::keep(&env, &dir, &list, own).expect("the same nodes").provenance;
        assert_eq!(provenance(NodeId(1)), Provenance::Foreign { node: NodeId(0) });
        let (path, aside) = (dir.join(NAME), dir.join("aside"));
        env.disk.rename(&path, &aside).expect("a file that is moved");
        env.disk.rename(&aside, &path).expect("a file that is moved back");
        assert_eq!(provenance(NodeId(0)), Provenance::Own);
        let file = env.disk.open(&path, OpenMode::Read).expect("the list");
        let mut bytes = vec![0; file.len().expect("a length") as usize];
        file.read_exact_at(&mut bytes, 0).expect("a read");
        env.disk.remove(&path).expect("a file to remove");
        env.disk
            .open(&path, OpenMode::CreateNew)
            .and_then(|copy| copy.write_all_at(&bytes, 0))
            .expect("a copy");
        assert_eq!(provenance(NodeId(0)), Provenance::Copied);
        kept.write(&*env.disk, &dir).expect("a write");
        assert_eq!(provenance(NodeId(0)), Provenance::Own);
    }

    #[test]
    fn a_damaged_list_is_found_out() {
        let (env, dir) = env();
        let list = nodes(&["http://a", "http://b"]);
        MembershipFile::keep(&env, &dir, &list, NodeId(0)).expect("a new directory");
        let file = env.disk.open(&dir.join(NAME), OpenMode::ReadWrite).expect("the list");
        file.write_all_at(b"X", 40).expect("damage");
        let error = MembershipFile::check(&*env.disk, &dir, None).expect_err("damaged").to_string();
        assert!(error.contains("checksum"), "{error}");
    }
}
