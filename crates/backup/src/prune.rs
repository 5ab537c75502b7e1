use std::collections::BTreeSet;

use crate::error::Error;
use crate::repository::{Repository, StoredName, Writing};

/// What a prune removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Backups that are left.
    pub backups_left: usize,
    /// Backups that were removed.
    pub backups: usize,
    /// Files that were removed because no backup needs them any more, or because they were left by a crash.
    pub files: u64,
}

/// Keeps the newest backups, `keep` of them, and what they need; removes everything else. A crash in the middle leaves files that
/// nobody needs, for the next time, and no backup without its files.
///
/// # Panics
/// If none is to be kept.
pub fn prune(repository: &Repository, _: &Writing, keep: usize) -> Result<Pruned, Error> {
    assert!(keep > 0, "callers keep one at least");
    let disk = &**repository.disk();
    let ids = repository.ids()?;
    let (old, kept) = ids.split_at(ids.len().saturating_sub(keep));
    // Read before anything is removed: what a backup that cannot be read needs, nobody knows.
    let mut needed = BTreeSet::new();
    for id in kept {
        let backup = repository.backup(id)?;
        needed.extend(backup.nodes.iter().flat_map(|node| &node.files).map(|file| file.stored));
    }
    let dir = repository.backups_dir();
    for id in old {
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
    let files = sweep(repository, &needed)?;
    Ok(Pruned { backups_left: kept.len(), backups: old.len(), files })
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
