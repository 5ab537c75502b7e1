use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_storage::{LargeCheck, LargeValue, OfflineStore, SegmentReader, StoreFile};

use crate::Progress;
use crate::error::Error;
use crate::log::{check_large, files_of, large_path, segment_path};
use crate::log_position::ChainName;
use crate::repository::{NodeBackup, Repository, StoredFile, StoredName, hash_file, is_missing};
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
    /// Backups that name log behind them which is not there: they can be restored, and no later time from them.
    pub without_log: Vec<String>,
    /// Everything that is not as it was written, by file and, where that can be told, offset.
    pub problems: Vec<Error>,
}

/// Reads every backup, and every file that one of them names, once. Goes on after problems, so that the report is complete; an `Err`
/// means that it could not even begin. Backups that are pruned meanwhile are left out, with what only they need.
pub fn verify(repository: &Repository, progress: &mut dyn FnMut(Progress)) -> Result<Verified, Error> {
    let (mut verified, mut problems) = (Verified::default(), Problems::default());
    let mut named: BTreeMap<StoredName, u64> = BTreeMap::new();
    let ids = repository.ids()?;
    for id in &ids {
        match repository.backup(id) {
            Ok(backup) => {
                verified.backups += 1;
                let files = backup.nodes.iter().flat_map(|node| &node.files);
                named.extend(files.map(|file| (file.stored, file.bytes)));
            }
            Err(error) => problems.push(Subject::Backup(id.clone()), error),
        }
    }
    if problems.0.is_empty() {
        let stored = match repository.stored() {
            // One was pruned between its name and its length. What is left over is only a hint.
            Err(Error::Io { error, .. }) if is_missing(&error) => Vec::new(),
            stored => stored?,
        };
        for (_, bytes) in stored.iter().filter(|(name, _)| !named.contains_key(name)) {
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
            Err(error) => problems.push(Subject::File(name), error),
        }
        verified.files += 1;
        verified.bytes = verified.bytes.saturating_add(bytes);
    }
    for name in broken {
        let located = locate(repository, &ids, name).into_iter();
        problems.0.extend(located.map(|error| (Subject::File(name), error)));
    }
    verify_log(repository, &ids, (&mut verified, &mut problems), progress)?;
    verified.problems = problems.of_what_is_left(repository)?;
    if !verified.without_log.is_empty() {
        let left = repository.ids()?;
        verified.without_log.retain(|id| left.contains(id));
    }
    Ok(verified)
}

/// What a problem is about.
#[derive(PartialEq, Eq)]
enum Subject {
    Backup(String),
    File(StoredName),
    Chain(ChainName),
    LogFile(PathBuf),
}

/// What is not as it was written, and what that is about.
#[derive(Default)]
struct Problems(Vec<(Subject, Error)>);

impl Problems {
    fn push(&mut self, subject: Subject, error: Error) {
        self.0.push((subject, error));
    }

    /// The same, unless it is told already: a list is read several times, and may be unreadable from some time on.
    fn push_once(&mut self, subject: Subject, error: Error) {
        if !self.0.iter().any(|(told, _)| *told == subject) {
            self.push(subject, error);
        }
    }

    /// Those that are about something that is still needed. A prune removes the list of a backup, or of a chain, before the files that
    /// nothing else names: whatever it removed is named by nothing that is there now. A list that cannot be read may name anything.
    fn of_what_is_left(mut self, repository: &Repository) -> Result<Vec<Error>, Error> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, chains) = (repository.ids()?, repository.chains()?);
        let (mut files, mut is_each_backup_read) = (BTreeSet::<StoredName>::new(), true);
        for id in &ids {
            match repository.backup(id) {
                Ok(backup) => {
                    files.extend(backup.nodes.iter().flat_map(|node| &node.files).map(|file| file.stored));
                }
                Err(Error::Unknown { .. }) => {}
                Err(error) => {
                    is_each_backup_read = false;
                    self.push_once(Subject::Backup(id.clone()), error);
                }
            }
        }
        let (mut whole, mut is_each_chain_read) = (Vec::new(), true);
        for name in &chains {
            match repository.chain(*name) {
                Ok(chain) => whole.extend(chain),
                Err(error) => {
                    is_each_chain_read = false;
                    self.push_once(Subject::Chain(*name), error);
                }
            }
        }
        let (log_dir, log_files) = (repository.log_dir(), files_of(&whole));
        let log_files: BTreeSet<PathBuf> = log_files.iter().map(|name| log_dir.join(name)).collect();
        let is_left = |subject: &Subject| match subject {
            Subject::Backup(id) => ids.contains(id),
            Subject::File(name) => !is_each_backup_read || files.contains(name),
            Subject::Chain(name) => chains.contains(name),
            Subject::LogFile(path) => !is_each_chain_read || log_files.contains(path),
        };
        Ok(self.0.into_iter().filter(|(subject, _)| is_left(subject)).map(|(_, error)| error).collect())
    }
}

/// The same for logs: every chain, every segment and every large value, and whether backups have the log that they name.
fn verify_log(
    repository: &Repository,
    ids: &[String],
    (verified, problems): (&mut Verified, &mut Problems),
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
                problems.push(Subject::Chain(name), error);
            }
        }
    }
    for id in ids {
        let backup = match repository.backup(id) {
            Ok(backup) => backup,
            // It was pruned meanwhile.
            Err(Error::Unknown { .. }) => continue,
            Err(error) => {
                problems.push_once(Subject::Backup(id.clone()), error);
                continue;
            }
        };
        let has_log = |node: &NodeBackup| {
            node.log.is_none_or(|position| match chains.get(&position.chain) {
                // It is told already.
                Some(None) => true,
                Some(Some(chain)) => chain.has_all_from(position.sequence),
                None => false,
            })
        };
        if !backup.nodes.iter().all(has_log) {
            verified.without_log.push(id.clone());
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
            Ok(_) => {
                let error = part.problem(repository, path.clone());
                problems.push(Subject::LogFile(path), error);
            }
            Err(error) => problems.push(Subject::LogFile(path), error),
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
