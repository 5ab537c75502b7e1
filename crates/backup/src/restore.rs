use std::io;
use std::path::Path;

use ladoga_env::{Disk, Env, Lock, OpenMode};
use ladoga_model::KEY_BYTES_MAX;
use ladoga_storage::{
    BLOB_BYTES_MIN, BLOB_PIECE_BYTES, Cell, Durability, Engine, LOCK, LOST_AND_FOUND, Options, RESTORING,
    Value, WriteBatch, begin_restore, end_restore,
};

use crate::Progress;
use crate::error::Error;
use crate::merged::MergedCells;
use crate::repository::{Backup, NodeBackup, Repository, hash_file};
use crate::slots::empty_slot;

/// What was restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Files that were copied, or cells that were written, deletions included.
    pub count: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// The memory that is used for writing cells.
const MEMORY_BYTES: u64 = 256 << 20;
/// A table has so many bytes before it is compressed: cells come in the order of their keys, so nothing merges their tables.
const MEMTABLE_BYTES: usize = 16 << 20;
/// Cells are written in groups of so many bytes, or of fewer if they are small.
const GROUP_BYTES: usize = 1 << 20;
/// Where a store is made before it is copied to where it belongs. A node that finds it removes it.
pub(crate) const SCRATCH: &str = "checkpoints/restoring";

/// Restores the files of one node into `target`, each verified on the way. `target` opens as a store once this has returned; what a
/// crash leaves of it opens as none.
pub fn restore_files(
    env: &Env,
    repository: &Repository,
    node: &NodeBackup,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, Error> {
    let disk = &*env.disk;
    let _lock = lock_empty(disk, target)?;
    begin_restore(disk, target)?;
    let restored = copy_files(env, repository, node, target, progress)?;
    end_restore(disk, target)?;
    Ok(restored)
}

/// The same into a directory that is known to have no files.
pub(crate) fn copy_files(
    env: &Env,
    repository: &Repository,
    node: &NodeBackup,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, Error> {
    let disk = &*env.disk;
    for folder in ["tables", "blobs"] {
        let dir = target.join(folder);
        disk.create_dir_all(&dir).map_err(Error::io("create directory", &dir))?;
    }
    let total_bytes = node.bytes();
    let mut restored = Restored::default();
    // Tables first: a directory with tables and nothing that names them is no store, and no new one.
    let mut files: Vec<_> = node.files.iter().collect();
    files.sort_by_key(|file| file.file);
    for stored in files {
        let to = target.join(stored.file.path());
        let file = disk.open(&to, OpenMode::CreateNew).map_err(Error::io("create", &to))?;
        let from = repository.file(stored.stored);
        let copied = hash_file(&**repository.disk(), &from, |piece, offset| {
            file.write_all_at(piece, offset).map_err(Error::io("write", &to))?;
            file.start_writeback(offset, piece.len() as u64);
            restored.bytes += piece.len() as u64;
            progress(Progress { done_bytes: restored.bytes, total_bytes });
            Ok(())
        })?;
        if copied != (stored.stored.hash, stored.bytes) {
            let what =
                "its bytes do not have the checksum that is its name; `ladoga backup verify` tells where"
                    .to_owned();
            return Err(Error::Damaged { path: from, what });
        }
        file.sync_data().map_err(Error::io("sync", &to))?;
        restored.count += 1;
    }
    node.tables.install(disk, &*env.rng, target)?;
    Ok(restored)
}

/// Restores the newest cells of all nodes of a backup into `target`: for a node on its own, or for each node of a new cluster of any
/// size. `target` opens as a store once this has returned; what a crash leaves of it is removed by the next attempt, which wants the
/// directory to be empty otherwise.
pub fn restore_cells(
    env: &Env,
    repository: &Repository,
    backup: &Backup,
    target: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, Error> {
    let disk = &*env.disk;
    let _lock = lock_empty(disk, target)?;
    begin_restore(disk, target)?;
    let scratch = target.join(SCRATCH);
    empty_slot(disk, &scratch)?;
    let engine = open_scratch(env, &scratch)?;
    let written = write_merged(&engine, repository, backup, progress)?;
    engine.checkpoint(target)?;
    engine.close()?;
    empty_slot(disk, &scratch)?;
    end_restore(disk, target)?;
    Ok(written)
}

/// The store that a data directory is made of.
pub(crate) fn open_scratch(env: &Env, scratch: &Path) -> Result<Engine, Error> {
    let mut options = Options::new(MEMORY_BYTES, Durability::Never);
    // Whatever else it is, it is no time to drop deletions: who restores into a cluster may need them, and all of the log comes behind.
    options.tombstone_age_ms_min = None;
    options.memtable_bytes = Some(MEMTABLE_BYTES);
    // Tables that share no key only move down: as they are written now, they stay.
    options.compression[0] = options.compression[1];
    Ok(Engine::open(env.clone(), scratch, options)?)
}

/// Writes the newest cells of all nodes of a backup. Progress is in bytes of all their files.
pub(crate) fn write_merged(
    engine: &Engine,
    repository: &Repository,
    backup: &Backup,
    progress: &mut dyn FnMut(Progress),
) -> Result<Restored, Error> {
    let mut cells = MergedCells::open(repository, backup)?;
    let total_bytes = backup.bytes();
    let mut restored = Restored::default();
    let mut batch = WriteBatch::new();
    while let Some((key, cell)) = cells.next_cell()? {
        restored.count += 1;
        restored.bytes += key.len() as u64 + value_bytes(&cell);
        match cell.value {
            None => batch.delete(&key, cell.stamp),
            Some(Value::Inline(value)) => batch.put(&key, cell.stamp, &value),
            Some(Value::Large(blob)) => {
                let mut writer = engine.create_blob()?;
                let mut offset = 0;
                while offset < blob.len() {
                    writer.write(&blob.read_piece(offset).map_err(|error| cells.named(error))?)?;
                    offset += BLOB_PIECE_BYTES as u64;
                }
                batch.put_blob(&key, cell.stamp, writer.finish()?);
            }
        }
        if is_full(engine, &batch) {
            engine.write_group(&[std::mem::take(&mut batch)])?;
            progress(Progress { done_bytes: cells.share_of(total_bytes), total_bytes });
        }
    }
    if !batch.is_empty() {
        engine.write_group(&[batch])?;
    }
    progress(Progress { done_bytes: total_bytes, total_bytes });
    Ok(restored)
}

/// Whether a batch is to be written before the next cell: it has enough bytes, or so many cells that the largest one may not fit beside
/// them into one group, which a batch must.
pub(crate) fn is_full(engine: &Engine, batch: &WriteBatch) -> bool {
    let cell_bytes = WriteBatch::cell_bytes_max(KEY_BYTES_MAX, BLOB_BYTES_MIN as usize);
    let (cells, bytes) = (batch.len(), batch.encoded_bytes());
    bytes >= GROUP_BYTES || engine.excess(cells + 1, bytes + cell_bytes).is_some()
}

fn value_bytes(cell: &Cell) -> u64 {
    match &cell.value {
        None => 0,
        Some(Value::Inline(bytes)) => bytes.len() as u64,
        Some(Value::Large(blob)) => blob.len(),
    }
}

/// Locks the directory that a restore goes into. Nothing may be lost by one, and nothing mixed: neither with what is there nor with what
/// another one puts there. What an attempt left that was cut off is no matter, as long as it is in the place for that; its mark is taken
/// over.
pub(crate) fn lock_empty(disk: &dyn Disk, target: &Path) -> Result<Box<dyn Lock>, Error> {
    // One of other things gets no lock.
    let is_begun = names_in(disk, target)?.iter().any(|name| name == RESTORING);
    if !is_begun {
        expect_empty(disk, target)?;
    }
    disk.create_dir_all(target).map_err(Error::io("create directory", target))?;
    let path = target.join(LOCK);
    let lock = match disk.lock(&path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(Error::TargetBusy { path: target.to_path_buf() });
        }
        lock => lock.map_err(Error::io("lock", &path))?,
    };
    expect_empty(disk, target)?;
    Ok(lock)
}

fn expect_empty(disk: &dyn Disk, target: &Path) -> Result<(), Error> {
    let own = ["checkpoints", RESTORING, LOCK, LOST_AND_FOUND];
    let names = names_in(disk, target)?;
    let is_begun = names.iter().any(|name| name == RESTORING);
    match names.into_iter().find(|name| !own.contains(&name.as_str())) {
        None => Ok(()),
        Some(found) if is_begun => Err(Error::Unfinished { path: target.to_path_buf(), found }),
        Some(found) => Err(Error::NotEmpty { path: target.to_path_buf(), found }),
    }
}

fn names_in(disk: &dyn Disk, dir: &Path) -> Result<Vec<String>, Error> {
    match disk.list(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names.map_err(Error::io("list", dir)),
    }
}
