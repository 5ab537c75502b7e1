//! What the engine consists of, by who needs it: reads, writes, or the work in the background.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::compact::Compaction;
use super::flush::Written;
use super::retire::Retired;
use super::segments::{NextSegment, SegmentFile};
use super::view::View;
use super::write::Writer;
use crate::kept_log::KeptLog;
use crate::levels::Manifest;
use crate::memtable::Spare;
use crate::options::KeptDeletions;
use crate::record_cache::RecordCache;
use crate::wal::Replayed;

/// What reads look at.
pub(super) struct ReadPath {
    pub(super) view: ArcSwap<View>,
    /// Held while the view is replaced by one made from it. Never during I/O.
    publishing: Mutex<()>,
    pub(super) records: RecordCache,
}

impl ReadPath {
    pub(super) fn new(view: View, records: RecordCache) -> ReadPath {
        ReadPath { view: ArcSwap::from_pointee(view), publishing: Mutex::new(()), records }
    }

    /// Replaces the view by one made from it.
    pub(super) fn publish(&self, next: impl FnOnce(&View) -> View) {
        let _publishing = self.publishing.lock();
        let current = self.view.load_full();
        self.view.store(Arc::new(next(&current)));
    }
}

/// What writes go through: the log, and the memtable behind it.
pub(super) struct WritePath {
    pub(super) writer: Mutex<Writer>,
    pub(super) next_segment: Mutex<NextSegment>,
    /// Earlier segments, by number, that are not known to be on disk, and whose records are not all in tables.
    pub(super) unsynced: Mutex<BTreeMap<u64, SegmentFile>>,
    /// Held while the log is synced: until the sync ends, no other thread knows what is durable. Whoever needs the writer as well
    /// locks that first.
    pub(super) syncing: Mutex<()>,
    /// What the logs are checked with.
    pub(super) secret: Option<u64>,
    /// The group that readers see last.
    pub(super) visible: AtomicU64,
    /// The group up to which the log is known to be on disk.
    pub(super) durable: AtomicU64,
    /// The last group that is to be on disk within a second; 0 if there was none.
    pub(super) due: AtomicU64,
    /// The memory of a freed memtable, for the next one.
    pub(super) spare: Mutex<Option<Spare>>,
}

impl WritePath {
    /// Behind a log of which all is replayed, visible and on disk.
    pub(super) fn new(
        writer: Writer,
        log: &Replayed,
        secret: Option<u64>,
        full_segment_bytes: u64,
    ) -> WritePath {
        WritePath {
            next_segment: Mutex::new(NextSegment::behind(&writer.wal, full_segment_bytes)),
            writer: Mutex::new(writer),
            unsynced: Mutex::default(),
            syncing: Mutex::new(()),
            secret,
            visible: AtomicU64::new(log.next_sequence - 1),
            durable: AtomicU64::new(log.next_sequence - 1),
            due: AtomicU64::new(0),
            spare: Mutex::default(),
        }
    }
}

/// What flushes and compactions change, and what they leave behind.
pub(super) struct Upkeep {
    pub(super) manifest: Mutex<Manifest>,
    /// Held by the thread that compacts. What another one began, and is to go on with.
    pub(super) unfinished: Mutex<Option<Compaction>>,
    /// What the patient thread leaves to the one that flushes.
    pub(super) written: Mutex<Option<Written>>,
    /// Held for as long as the record cache is told of some records that are about to be in a table, and where they are put there:
    /// two threads may be at work for the same memtable.
    pub(super) caching: Mutex<()>,
    pub(super) retired: Mutex<Retired>,
    /// The last tables that left level 0 were moved as they were: keys come in order, and no compaction will ever compress them.
    pub(super) flushed_is_moved: AtomicBool,
    /// Log whose records are in tables; `None` if none is kept.
    pub(super) kept_log: Option<Arc<KeptLog>>,
    /// Writes with older timestamps have all arrived.
    pub(super) drop_before: AtomicU64,
    /// Values that expired before this time may lose their bytes.
    pub(super) expired_before_ms: AtomicU64,
    /// Deletions stay until they are this old,
    pub(super) deletions_age_ms: AtomicU64,
    /// up to this time.
    pub(super) deletions_kept_until_ms: AtomicU64,
    /// Those up to this timestamp may be gone nevertheless: the clock was ahead, say.
    pub(super) deletions_dropped_up_to: AtomicU64,
}

impl Upkeep {
    pub(super) fn new(
        manifest: Manifest,
        kept_log: Option<Arc<KeptLog>>,
        kept_deletions: KeptDeletions,
    ) -> Upkeep {
        Upkeep {
            deletions_dropped_up_to: AtomicU64::new(manifest.dropped_up_to().unwrap_or(0)),
            manifest: Mutex::new(manifest),
            unfinished: Mutex::default(),
            written: Mutex::default(),
            caching: Mutex::default(),
            retired: Mutex::default(),
            flushed_is_moved: AtomicBool::new(false),
            kept_log,
            drop_before: AtomicU64::new(0),
            expired_before_ms: AtomicU64::new(0),
            deletions_age_ms: AtomicU64::new(kept_deletions.age_ms),
            deletions_kept_until_ms: AtomicU64::new(kept_deletions.until_ms),
        }
    }
}
