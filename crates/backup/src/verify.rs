use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_storage::{LargeCheck, LargeValue, OfflineStore, SegmentReader, StoreFile};

use crate::Progress;
use crate::error::Error;
use crate::log::{check_large, large_path, segment_path};
use crate::repository::{NodeBackup, Repository, StoredFile, StoredName, hash_file};
use crate::view::View;

/// What a verification found.
#[derive(Debug, Default)]
pub struct Verified {
    /// Backups that can be read.
    pub backups: usize,
    /// Files that they name.
    pub files: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Files that no backup names; 0 if a backup cannot be read, because nobody knows what it names.
    pub unnamed_files: u64,
    /// Bytes of those.
    pub unnamed_bytes: u64,
    /// Everything that is not as it was written, by file and, where that can be told, offset.
    pub problems: Vec<Error>,
}

/// Reads every backup, and every file that one of them names, once. Goes on after problems, so that the report is complete; an `Err`
/// means that it could not even begin.
pub fn verify(repository: &Repository, progress: &mut dyn FnMut(Progress)) -> Result<Verified, Error> {
    let mut verified = Verified::default();
    let mut named: BTreeMap<StoredName, u64> = BTreeMap::new();
    let ids = repository.ids()?;
    for id in &ids {
        match repository.backup(id) {
            Ok(backup) => {
                verified.backups += 1;
                let files = backup.nodes.iter().flat_map(|node| &node.files);
                named.extend(files.map(|file| (file.stored, file.bytes)));
            }
            Err(error) => verified.problems.push(error),
        }
    }
    if verified.problems.is_empty() {
        for (_, bytes) in repository.stored()?.iter().filter(|(name, _)| !named.contains_key(name)) {
            verified.unnamed_files += 1;
            verified.unnamed_bytes = verified.unnamed_bytes.saturating_add(*bytes);
        }
    }
    let total_bytes = named.values().copied().fold(0, u64::saturating_add);
    let mut done_bytes = 0_u64;
    let mut broken = Vec::new();
    for (name, bytes) in named {
        let path = repository.file(name);
        let read = hash_file(&**repository.disk(), &path, |piece, _| {
            progress(Progress { done_bytes: done_bytes.saturating_add(piece.len() as u64), total_bytes });
            done_bytes += piece.len() as u64;
            Ok(())
        });
        match read {
            Ok(found) if found == (name.hash, bytes) => {}
            Ok(_) => broken.push(name),
            Err(error) => verified.problems.push(error),
        }
        verified.files += 1;
        verified.bytes = verified.bytes.saturating_add(bytes);
    }
    for name in broken {
        let problems = locate(repository, &ids, name);
        verified.problems.extend(problems);
    }
    verify_log(repository, &ids, &mut verified, progress)?;
    Ok(verified)
}

/// The same for logs: every chain, every segment and every large value, and whether backups have the log that they name.
fn verify_log(
    repository: &Repository,
    ids: &[String],
    verified: &mut Verified,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let mut chains = BTreeMap::new();
    let mut files: BTreeMap<PathBuf, (u128, u64, LogPart)> = BTreeMap::new();
    for name in repository.chains()? {
        match repository.chain(name) {
            Ok(None) => {}
            Ok(Some(chain)) => {
                for segment in &chain.segments {
                    let path = segment_path(repository, segment.hash);
                    let sequences = (segment.first_sequence, segment.end_sequence);
                    files.insert(path, (segment.hash, segment.bytes, LogPart::Segment(sequences)));
                    for large in &segment.larges {
                        let part = LogPart::Large(large.value);
                        files.insert(large_path(repository, large.hash), (large.hash, large.bytes, part));
                    }
                }
                chains.insert(name, Some(chain));
            }
            Err(error) => {
                chains.insert(name, None);
                verified.problems.push(error);
            }
        }
    }
    for id in ids {
        let Ok(backup) = repository.backup(id) else { continue };
        for position in backup.nodes.iter().filter_map(|node| node.log) {
            let is_there = match chains.get(&position.chain) {
                // It is told already.
                Some(None) => true,
                Some(Some(chain)) => chain.has_all_from(position.sequence),
                None => false,
            };
            if !is_there {
                let what = format!("the log behind it, {}, is not there", position.chain);
                verified.problems.push(Error::Damaged { path: repository.manifest_path(id), what });
            }
        }
    }
    let total_bytes = files.values().map(|(_, bytes, _)| *bytes).fold(0, u64::saturating_add);
    let mut done_bytes = 0;
    for (path, (hash, bytes, part)) in files {
        let read = hash_file(&**repository.disk(), &path, |piece, _| {
            done_bytes += piece.len() as u64;
            progress(Progress { done_bytes, total_bytes });
            Ok(())
        });
        match read {
            Ok(found) if found == (hash, bytes) => {}
            Ok(_) => verified.problems.push(part.problem(repository, path)),
            Err(error) => verified.problems.push(error),
        }
        verified.files += 1;
        verified.bytes = verified.bytes.saturating_add(bytes);
    }
    Ok(())
}

/// What a file of a log is.
enum LogPart {
    Segment((u64, u64)),
    Large(LargeValue),
}

impl LogPart {
    /// Where a file that is not as it was written differs.
    fn problem(&self, repository: &Repository, path: PathBuf) -> Error {
        let found = match self {
            LogPart::Segment(sequences) => check_segment(repository, &path, *sequences),
            LogPart::Large(value) => check_large(repository.disk(), *value, path.clone()),
        };
        found.err().unwrap_or_else(|| {
            let what = "its bytes do not have the checksum that is its name, and nothing in it says where";
            Error::Damaged { path, what: what.to_owned() }
        })
    }
}

fn check_segment(repository: &Repository, path: &Path, sequences: (u64, u64)) -> Result<(), Error> {
    let mut reader = SegmentReader::new(path, sequences);
    hash_file(&**repository.disk(), path, |piece, _| {
        reader.push(piece, &mut |_| Ok(()))?;
        Ok(())
    })?;
    Ok(reader.finish()?)
}

/// Where a file that is not as it was written differs: the engine's own checksums tell.
fn locate(repository: &Repository, ids: &[String], name: StoredName) -> Vec<Error> {
    let path = repository.file(name);
    let mut found = Vec::new();
    for id in ids {
        let Ok(backup) = repository.backup(id) else { continue };
        let holder = backup.nodes.iter().find_map(|node| {
            let file = node.files.iter().find(|file| file.stored == name)?;
            Some((node, *file))
        });
        if let Some((node, file)) = holder {
            found = problems_of(repository, node, file);
            break;
        }
    }
    if found.is_empty() {
        let what =
            "its bytes do not have the checksum that is its name, and no block of it says where".to_owned();
        found.push(Error::Damaged { path, what });
    }
    found
}

fn problems_of(repository: &Repository, node: &NodeBackup, broken: StoredFile) -> Vec<Error> {
    let files = node.files.iter().map(|file| (file.file, repository.file(file.stored)));
    let view = View::new(repository.disk(), 0, files);
    let (table, wanted) = match broken.file {
        StoreFile::Table(number) => (Some(number), None),
        StoreFile::Blob(number) => {
            let naming = node.tables.tables().find(|(_, blobs)| blobs.contains(&number));
            (naming.map(|(table, _)| table), Some(number))
        }
    };
    let Some(table) = table else { return Vec::new() };
    let disk = Arc::clone(&view) as _;
    let check = &mut |large: LargeValue| {
        if wanted == Some(large.file) { LargeCheck::Whole } else { LargeCheck::Length }
    };
    let errors = OfflineStore::check_table(disk, view.dir(), &node.tables, table, check);
    // Those of this file only: another one that is broken is told by itself.
    let own = repository.file(broken.stored);
    let is_own = |error: &ladoga_storage::Error| match error {
        ladoga_storage::Error::Corruption { path, .. }
        | ladoga_storage::Error::Missing { path, .. }
        | ladoga_storage::Error::Io { path, .. } => *path == own,
        _ => true,
    };
    errors.into_iter().map(|error| view.named(error)).filter(is_own).map(Error::Store).collect()
}
