use std::collections::{BTreeMap, BTreeSet};

use crate::error::Error;
use crate::log::{Chain, files_of};
use crate::log_position::{ChainName, LogPosition};
use crate::origin::Origins;
use crate::repository::{Repository, StoredName, Writing};

/// What a prune removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Backups that are left.
    pub backups_left: usize,
    /// Backups that were removed, the oldest first: their names, and their nodes.
    pub backups: Vec<(String, String)>,
    /// Files that were removed because no backup needs them any more, or because they were left by a crash.
    pub files: u64,
}

/// Keeps the newest backups of each node or cluster, `keep` of them, and what they need; removes everything else. A crash in the middle
/// leaves files that nobody needs, for the next time, and no backup without its files.
///
/// # Panics
/// If none is to be kept.
pub fn prune(repository: &Repository, writing: &Writing, keep: usize) -> Result<Pruned, Error> {
    assert!(keep > 0, "callers keep one at least");
    let disk = &**repository.disk();
    // Read before anything is removed: what a backup that cannot be read needs, and whose it is, nobody knows.
    let (mut needed, mut positions) = (BTreeSet::new(), BTreeMap::new());
    let (mut origins, mut old, mut backups_left) = (Origins::default(), Vec::new(), 0);
    for id in repository.ids()?.into_iter().rev() {
        let backup = repository.backup(&id)?;
        if origins.add(&backup) > keep {
            old.push((id, backup.urls()));
            continue;
        }
        backups_left += 1;
        for LogPosition { chain, sequence } in backup.nodes.iter().filter_map(|node| node.log) {
            let first = positions.entry(chain).or_insert(sequence);
            *first = sequence.min(*first);
        }
        needed.extend(backup.nodes.iter().flat_map(|node| &node.files).map(|file| file.stored));
    }
    let names = repository.chains()?.into_iter();
    let chains =
        names.map(|name| repository.listed_chain(writing, name)).collect::<Result<Vec<Chain>, _>>()?;
    let dir = repository.backups_dir();
    old.reverse();
    for (id, _) in &old {
        let path = repository.manifest_path(id);
        disk.remove(&path).map_err(Error::io("remove", &path))?;
    }
    let names = disk.list(&dir).map_err(Error::io("list", &dir))?;
    for name in names.iter().filter(|name| name.strip_suffix(".new").is_some()) {
        let path = dir.join(name);
        disk.remove(&path).map_err(Error::io("remove", &path))?;
    }
    // Durably gone before the first of their files is.
    disk.sync_dir(&dir).map_err(Error::io("sync directory", &dir))?;
    let files = sweep(repository, &needed)? + prune_log(repository, writing, chains, &positions)?;
    Ok(Pruned { backups_left, backups: old, files })
}

/// Removes segments that no backup needs any more. What is known of a chain is written first, or removed, and its files after that.
fn prune_log(
    repository: &Repository,
    writing: &Writing,
    chains: Vec<Chain>,
    positions: &BTreeMap<ChainName, u64>,
) -> Result<u64, Error> {
    let newest: BTreeMap<u128, u32> =
        chains.iter().map(|chain| (chain.name.store, chain.name.generation)).collect();
    let mut left = Vec::new();
    for mut chain in chains {
        let needed_from = match positions.get(&chain.name) {
            Some(&sequence) => sequence,
            // It is gone on with, and a backup will follow.
            None if newest.get(&chain.name.store) == Some(&chain.name.generation) => chain.end_sequence(),
            None => {
                repository.remove_chain(chain.name)?;
                continue;
            }
        };
        let end = chain.end_sequence();
        let count = chain.segments.len();
        chain.segments.retain(|segment| segment.end_sequence > needed_from);
        if chain.segments.len() < count {
            chain.first_sequence = chain.segments.first().map_or(end, |first| first.first_sequence);
            repository.publish_chain(writing, &chain)?;
        }
        left.push(chain);
    }
    let (disk, dir, needed) = (&**repository.disk(), repository.log_dir(), files_of(&left));
    let names = repository.log_files()?;
    if names.is_empty() {
        return Ok(0);
    }
    disk.sync_dir(&dir).map_err(Error::io("sync directory", &dir))?;
    let mut removed = 0;
    for name in names.iter().filter(|name| name.strip_suffix(".json").is_none() && !needed.contains(*name)) {
        let path = dir.join(name);
        disk.remove(&path).map_err(Error::io("remove", &path))?;
        removed += 1;
    }
    disk.sync_dir(&dir).map_err(Error::io("sync directory", &dir))?;
    Ok(removed)
}

fn sweep(repository: &Repository, needed: &BTreeSet<StoredName>) -> Result<u64, Error> {
    let (disk, dir) = (&**repository.disk(), repository.files_dir());
    let mut removed = 0;
    for name in disk.list(&dir).map_err(Error::io("list", &dir))? {
        let is_needed = match name.parse::<StoredName>() {
            Ok(stored) => needed.contains(&stored),
            // Nothing of ours is left alone but what is being fetched, and nobody fetches now.
            Err(()) => name.strip_suffix(".new").is_none(),
        };
        if !is_needed {
            let path = dir.join(name);
            disk.remove(&path).map_err(Error::io("remove", &path))?;
            removed += 1;
        }
    }
    disk.sync_dir(&dir).map_err(Error::io("sync directory", &dir))?;
    Ok(removed)
}
