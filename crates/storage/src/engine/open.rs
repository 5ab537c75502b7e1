use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use ladoga_env::{Disk, Env, FileIdentity, Lock};
use parking_lot::Mutex;

use super::background::BackgroundWork;
use super::parts::{ReadPath, Upkeep, WritePath};
use super::recover::ReplayedMemtables;
use super::segments::first_bytes;
use super::write::{Writer, flush_early_bytes};
use super::{Inner, View};
use crate::blob::BlobRegistry;
use crate::error::Error;
use crate::frame::LogId;
use crate::kept_log::KeptLog;
use crate::levels::{Edit, Levels, Manifest, Recovered, read_manifest};
use crate::memtable::MemtableWriter;
use crate::options::{LEVELS, Options};
use crate::paths;
use crate::record_cache::RecordCache;
use crate::restoring::expect_no_restore;
use crate::stats::Counters;
use crate::table::{BlockCache, Table, TableMeta, TableShared, missing_table};
use crate::wal::{Replayed, WalWriter, make_durable, replay, segments};

/// Recovery, step by step: the mark of a restore that was not completed, lock, manifest, log, a new manifest, orphans, a new segment;
/// tables of a log that is more than memory has room for.
pub(super) fn open(env: Env, dir: &Path, options: Options) -> Result<Arc<Inner>, Error> {
    options.validate()?;
    let disk = env.disk.clone();
    // First of all: what is refused stays as it is.
    expect_no_restore(&*disk, dir)?;
    create_directories(&*disk, dir)?;
    let lock = take_lock(&*disk, dir)?;
    // At once: a directory that takes the place of this one later is another.
    let path = dir.join(paths::LOCK);
    let lock = (lock, paths::identity(&*disk, &path).map_err(Error::io("open", path))?);
    let mut recovered = match read_manifest(&*disk, dir)? {
        Some(recovered) => recovered,
        None => nothing_yet(&*disk, dir)?,
    };
    let shared = share(&env, dir, &options);
    let levels = levels_of(dir, &recovered, &shared)?;
    find_tables(&*disk, dir, &recovered)?;
    let mut replayed =
        ReplayedMemtables::new(options.budget().memtable_bytes, env.rng.next_u64(), shared.blobs.clone());
    let log = replay(&*disk, dir, recovered.log_start(), &mut |group| replayed.apply(&group))?;
    replayed.finish(log.next_sequence);
    remove_behind(&*disk, dir, &log)?;
    make_durable(&*disk, dir, &log)?;
    // Not before all is found to be there: what is refused keeps the log that it may have to be restored by.
    let kept_log = kept_log(&env, dir, &options, &shared.blobs)?;
    // Or else each open without a write would leave a segment more.
    recovered.first_wal = log.first_number;
    let secret = recovered.secret.unwrap_or_else(|| env.rng.next_u64());
    let log_begun = !log.segments.is_empty();
    let (number, manifest) = with_room(&shared.blobs, || {
        let number = unused_number(&*disk, dir, &recovered)?;
        let id = LogId { number, secret: Some(secret) };
        Ok((number, begin_manifest(&*disk, dir, &recovered, id, log_begun)?))
    })?;
    remove_orphans(&*disk, dir, &recovered, number, &shared.blobs)?;
    let parts = (shared, levels, lock, kept_log);
    let inner = assemble(env, dir, options, parts, manifest, number + 2, &log, &replayed)?;
    if replayed.is_too_much {
        inner.flush_log(recovered.log_start(), &log)?;
    }
    inner.observe_space();
    Ok(inner)
}

/// The log that is kept, of which a full disk takes what it needs; none if there is to be none.
fn kept_log(
    env: &Env,
    dir: &Path,
    options: &Options,
    blobs: &BlobRegistry,
) -> Result<Option<Arc<KeptLog>>, Error> {
    let Some(keep_ms) = options.keep_log_ms else {
        return KeptLog::remove_all_in(&*env.disk, dir).map(|()| None);
    };
    let kept = Arc::new(KeptLog::open(&env.disk, &env.clock, dir, keep_ms)?);
    blobs.may_remove(&kept);
    blobs.observe_space();
    Ok(Some(kept))
}

/// Begins a file of the store, for which a full disk may have to give up log that is kept.
fn with_room<T>(blobs: &BlobRegistry, begin: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    match begin() {
        // Not every bound on space shows in what is free.
        Err(error) if error.is_disk_full() && blobs.remove_kept_log() => begin(),
        begun => begun,
    }
}

fn create_directories(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    for dir in [dir.to_path_buf(), paths::wal_dir(dir), paths::tables_dir(dir), paths::blobs_dir(dir)] {
        disk.create_dir_all(&dir).map_err(Error::io("create directory", dir))?;
    }
    Ok(())
}

pub(crate) fn take_lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn Lock>, Error> {
    let path = dir.join(paths::LOCK);
    match disk.lock(&path) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Error::Locked { path }),
        other => other.map_err(Error::io("lock", path)),
    }
}

/// A directory without `CURRENT` is new, or its first open was cut off; one with tables has lost its `CURRENT`.
fn nothing_yet(disk: &dyn Disk, dir: &Path) -> Result<Recovered, Error> {
    let tables_dir = paths::tables_dir(dir);
    let tables = disk.list(&tables_dir).map_err(Error::io("list", tables_dir))?;
    let logs = segments(disk, dir, 0)?;
    if tables.is_empty() && logs.is_empty() {
        return Ok(Recovered {
            number: 0,
            next_file: 1,
            first_wal: 1,
            first_sequence: 1,
            ..Recovered::default()
        });
    }
    let although = "there are tables or logs of a store".to_owned();
    Err(Error::Missing { path: dir.join(paths::CURRENT), although })
}

fn share(env: &Env, dir: &Path, options: &Options) -> Arc<TableShared> {
    let budget = options.budget();
    let counters = Arc::new(Counters::default());
    Arc::new(TableShared {
        disk: env.disk.clone(),
        dir: dir.to_path_buf(),
        cache: BlockCache::new(budget.cache_bytes, budget.pinned_bytes),
        counters: counters.clone(),
        blobs: BlobRegistry::new(env.disk.clone(), dir.to_path_buf(), budget.reserve_bytes, counters),
    })
}

/// More than any disk holds: a bound for sums of the sizes that tables claim to have.
const TABLES_MAX: u64 = 1 << 60;

pub(crate) fn levels_of(
    dir: &Path,
    recovered: &Recovered,
    shared: &Arc<TableShared>,
) -> Result<Levels, Error> {
    check_sums(dir, recovered)?;
    let mut levels: [Vec<Arc<Table>>; LEVELS] = std::array::from_fn(|_| Vec::new());
    for (level, meta) in recovered.tables.values() {
        levels[*level].push(Table::new(shared, meta.clone()));
    }
    Levels::checked(levels).ok_or_else(|| Error::Corruption {
        path: dir.join(paths::manifest_name(recovered.number)),
        offset: 0,
        what: "levels",
        expected: "tables of one level that share no key".to_owned(),
        found: "tables that do".to_owned(),
    })
}

/// Whether tables say of themselves what can be. A manifest of other bytes would not fit its checksum, but may be forged.
fn check_sums(dir: &Path, recovered: &Recovered) -> Result<(), Error> {
    let sum = |figure: fn(&TableMeta) -> u64| {
        recovered.tables.values().map(|(_, meta)| figure(meta)).fold(0, u64::saturating_add)
    };
    let sums = [
        ("bytes of all tables", sum(TableMeta::disk_bytes)),
        ("records of all tables", sum(|meta| meta.records)),
    ];
    match sums.into_iter().find(|(_, sum)| *sum > TABLES_MAX) {
        None => Ok(()),
        Some((what, sum)) => Err(Error::Corruption {
            path: dir.join(paths::manifest_name(recovered.number)),
            offset: 0,
            what,
            expected: format!("at most {TABLES_MAX}"),
            found: if sum == u64::MAX { format!("{sum} or more") } else { sum.to_string() },
        }),
    }
}

/// Finds every table. If one is missing, the manifest lost its end even if its frames are sound: a decayed last frame looks
/// like a torn one. Going on would remove, as orphans, the tables that the lost frame named.
fn find_tables(disk: &dyn Disk, dir: &Path, recovered: &Recovered) -> Result<(), Error> {
    let tables_dir = paths::tables_dir(dir);
    let names = disk.list(&tables_dir).map_err(Error::io("list", tables_dir))?;
    let found: BTreeSet<u64> = names.iter().filter_map(|name| paths::parse(name, "", ".sst")).collect();
    match recovered.tables.keys().find(|&number| !found.contains(number)) {
        None => Ok(()),
        Some(&missing) => Err(missing_table(paths::table(dir, missing))),
    }
}

/// The newest first, each durably, so that a crash in between leaves a log that ends earlier and has no gap. The first of
/// them stays until the next segment takes its place: the manifest may say that it is there.
fn remove_behind(disk: &dyn Disk, dir: &Path, log: &Replayed) -> Result<(), Error> {
    if log.lost_groups > 0 {
        let groups = log.lost_groups;
        tracing::warn!(groups, "discarded writes that were not synced before a power failure");
    }
    for &number in log.behind.iter().skip(1).rev() {
        let path = paths::wal(dir, number);
        disk.remove(&path).map_err(Error::io("remove", path))?;
        let wal_dir = paths::wal_dir(dir);
        disk.sync_dir(&wal_dir).map_err(Error::io("sync directory", wal_dir))?;
    }
    Ok(())
}

/// A number that no file has.
fn unused_number(disk: &dyn Disk, dir: &Path, recovered: &Recovered) -> Result<u64, Error> {
    let mut unused = recovered.next_file.max(recovered.number + 1);
    let places = [
        (paths::tables_dir(dir), "", ".sst"),
        (paths::blobs_dir(dir), "", ".blob"),
        (dir.to_path_buf(), "manifest-", ""),
    ];
    for (dir, prefix, suffix) in places {
        let names = disk.list(&dir).map_err(Error::io("list", dir))?;
        let numbers = names.iter().filter_map(|name| paths::parse(name, prefix, suffix));
        unused = unused.max(numbers.max().unwrap_or(0) + 1);
    }
    Ok(unused)
}

/// A new manifest with the content of the old one.
fn begin_manifest(
    disk: &dyn Disk,
    dir: &Path,
    recovered: &Recovered,
    log: LogId,
    log_begun: bool,
) -> Result<Manifest, Error> {
    let everything = Edit {
        next_file: Some(log.number + 1),
        first_wal: Some(recovered.first_wal),
        first_sequence: Some(recovered.first_sequence),
        log_begun,
        added: recovered.tables.values().cloned().collect(),
        removed: Vec::new(),
        dropped_up_to: recovered.dropped_up_to,
    };
    Manifest::create(disk, dir, log, &everything)
}

/// Removes what a crash left: files that nothing names, the old manifest among them. Not before the new manifest is durable:
/// the last edit of the old one may have been read from the page cache and never reach the disk, because a sync failed; and
/// without that edit it names other files.
fn remove_orphans(
    disk: &dyn Disk,
    dir: &Path,
    recovered: &Recovered,
    manifest: u64,
    blobs: &BlobRegistry,
) -> Result<(), Error> {
    let clean = |dir: &Path, prefix: &str, suffix: &str, is_named: &dyn Fn(u64) -> bool| {
        for name in disk.list(dir).map_err(Error::io("list", dir))? {
            if paths::parse(&name, prefix, suffix).is_some_and(|number| !is_named(number)) {
                let path = dir.join(name);
                disk.remove(&path).map_err(Error::io("remove", path))?;
            }
        }
        Ok::<(), Error>(())
    };
    clean(&paths::tables_dir(dir), "", ".sst", &|number| recovered.tables.contains_key(&number))?;
    clean(&paths::blobs_dir(dir), "", ".blob", &|number| blobs.is_referred(number))?;
    clean(&paths::wal_dir(dir), "", ".wal", &|number| number >= recovered.first_wal)?;
    clean(dir, "manifest-", "", &|number| number == manifest)
}

type Parts = (Arc<TableShared>, Levels, (Box<dyn Lock>, FileIdentity), Option<Arc<KeptLog>>);

#[expect(clippy::too_many_arguments, reason = "the one place where all parts meet")]
fn assemble(
    env: Env,
    dir: &Path,
    options: Options,
    (shared, levels, (lock, lock_file), kept_log): Parts,
    mut manifest: Manifest,
    next_file: u64,
    log: &Replayed,
    replayed: &ReplayedMemtables,
) -> Result<Arc<Inner>, Error> {
    let (budget, kept_deletions) = (options.budget(), options.kept_deletions);
    let capacity = budget.memtable_bytes;
    if let Some(kept) = &kept_log {
        log.segments.iter().for_each(|&(number, end)| kept.ends_at(number, end));
    }
    let (table_bytes, log_bytes) = (levels.disk_bytes(), log.segments.iter().map(|&(_, end)| end).sum());
    let store_bytes = table_bytes.saturating_add(log_bytes);
    let wal_bytes = first_bytes(options.first_segment_bytes, store_bytes, capacity as u64);
    let create = || WalWriter::create(&*env.disk, dir, log.next_number, wal_bytes);
    let mut wal = with_room(&shared.blobs, create)?;
    wal.begin(log.next_sequence, manifest.secret())?;
    if log.segments.is_empty() {
        // This is the first; without it, a log that got lost would look like one that has not begun.
        manifest.append(&Edit { log_begun: true, ..Edit::default() })?;
    }
    let memtable = MemtableWriter::new(capacity, log.next_number, env.rng.next_u64());
    let last_timestamp = replayed.newest_timestamp.max(levels.newest_of_all().timestamp);
    let background = BackgroundWork::new(options.background, budget.memtable_bytes);
    background.observe(&levels, env.clock.monotonic_ns());
    let flush_early_bytes = flush_early_bytes(&*env.rng, &options);
    let view = View {
        active: memtable.table().clone(),
        sealed: replayed.whole.iter().rev().cloned().collect(),
        levels: Arc::new(levels),
    };
    let writer =
        Writer { wal, memtable, flush_early_bytes, next_sequence: log.next_sequence, owed: Duration::ZERO };
    Ok(Arc::new(Inner {
        dir: dir.to_path_buf(),
        budget,
        options,
        reads: ReadPath::new(view, RecordCache::new(budget.records_bytes)),
        writes: WritePath::new(writer, log, manifest.secret(), capacity as u64),
        upkeep: Upkeep::new(manifest, kept_log, kept_deletions),
        background,
        next_file: AtomicU64::new(next_file),
        health: shared.blobs.health().clone(),
        shared,
        last_timestamp,
        lost_groups: log.lost_groups,
        closed: AtomicBool::new(false),
        lock: Mutex::new(Some(lock)),
        lock_file,
        env,
    }))
}

impl Inner {
    /// The end of a store's use: everything in tables, so that the next open reads no log.
    pub(super) fn finish(&self) -> Result<(), Error> {
        self.health.admit(false, 0)?;
        self.sync_log()?;
        let flush = || {
            while self.flush_one()? {}
            Ok(())
        };
        // The threads are gone: if as many memtables wait as may, sealing another one would wait for a flush for ever. So they
        // are flushed first.
        let flushed = flush().and_then(|()| self.seal()).and_then(|()| flush());
        self.collect_retired();
        self.shared.blobs.freeze();
        *self.lock.lock() = None;
        match flushed {
            // The log has it all.
            Err(error) if error.may_pass() => {
                tracing::warn!(%error, "closed without a last flush of the write-ahead log");
                Ok(())
            }
            other => other,
        }
    }
}
