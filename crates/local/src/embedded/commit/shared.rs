use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ladoga_env::WorkerHandle;
use ladoga_storage::{Durability, Engine, Snapshot};
use parking_lot::RwLock;

use super::super::feed::Feed;
use super::inbox::{CommitResult, Inbox};
use super::unit_cost::{Bound, Cost, UnitCost, admit};
use super::unsynced::UnsyncedWrites;
use super::write_queue::WriteQueue;
use super::writer::GroupWriter;
use crate::store::{Distribution, Metric, MetricKind, StoreError};

/// The share of the memory budget that queued writes may take, and never more than the second.
const QUEUE_MEMORY_SHARE: u64 = 16;
const QUEUE_BYTES_MAX: u64 = 32 << 20;

/// What the event loops, the committer and the syncer share.
pub(in super::super) struct CommitShared {
    write_queues: RwLock<Vec<Arc<WriteQueue>>>,
    committer: OnceLock<Arc<dyn WorkerHandle>>,
    /// Whether the committer sleeps, or is about to.
    is_parked: AtomicBool,
    is_closed: AtomicBool,
    has_panicked: AtomicBool,
    unit_ns: AtomicU64,
    queue_bytes_max: u64,
    /// What the engine writes at once.
    group_bytes_max: usize,
    refusals: Refusals,
    groups: GroupSizes,
    /// Groups that an event loop committed itself.
    inline_groups: AtomicU64,
    /// The durability of writes that ask for none.
    durability: Durability,
    /// Whether a write may be less durable than that, if it asks.
    may_be_weaker: bool,
    unsynced: UnsyncedWrites,
    writer: GroupWriter,
}

/// Groups by how many entries they had; the buckets end at powers of two, and the last one is open.
#[derive(Default)]
struct GroupSizes {
    buckets: [AtomicU64; GROUP_SIZE_BUCKETS + 1],
    entries: AtomicU64,
}

/// The last bucket but the open one ends at 2^12 entries.
const GROUP_SIZE_BUCKETS: usize = 13;

impl GroupSizes {
    fn add(&self, entries: u64) {
        let bucket = (entries.max(1).next_power_of_two().ilog2() as usize).min(GROUP_SIZE_BUCKETS);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.entries.fetch_add(entries, Ordering::Relaxed);
    }

    fn distribution(&self) -> Distribution {
        let counts = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let buckets = counts[..GROUP_SIZE_BUCKETS].iter().enumerate();
        Distribution {
            buckets: buckets.map(|(bits, &count)| ((1_u64 << bits) as f64, count)).collect(),
            count: counts.iter().sum(),
            sum: self.entries.load(Ordering::Relaxed) as f64,
        }
    }
}

/// Writes that were refused, by bound.
#[derive(Default)]
struct Refusals([AtomicU64; Bound::ALL.len()]);

impl Refusals {
    fn add(&self, bound: Bound) {
        self.0[bound as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn by_bound(&self) -> [(String, f64); Bound::ALL.len()] {
        let count = |bound: Bound| self.0[bound as usize].load(Ordering::Relaxed) as f64;
        Bound::ALL.map(|bound| (bound.name().to_owned(), count(bound)))
    }
}

/// The error of every write after one that panicked.
pub(super) fn panicked() -> StoreError {
    let reason = "a write to the write-ahead log panicked; writes are refused until the node is restarted";
    StoreError::Failed { reason: reason.to_owned() }
}

impl CommitShared {
    pub(super) fn new(engine: Arc<Engine>, memory_bytes: u64, may_be_weaker: bool) -> CommitShared {
        CommitShared {
            write_queues: RwLock::default(),
            committer: OnceLock::new(),
            is_parked: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
            unit_ns: AtomicU64::new(UnitCost::new().unit_ns()),
            queue_bytes_max: (memory_bytes / QUEUE_MEMORY_SHARE).min(QUEUE_BYTES_MAX),
            group_bytes_max: engine.group_bytes_max(),
            refusals: Refusals::default(),
            groups: GroupSizes::default(),
            inline_groups: AtomicU64::new(0),
            durability: engine.durability(),
            may_be_weaker,
            unsynced: UnsyncedWrites::default(),
            writer: GroupWriter::new(engine),
        }
    }

    /// This is what commits.
    pub(super) fn wakes(&self, committer: Arc<dyn WorkerHandle>) {
        self.committer.get_or_init(|| committer);
    }

    /// A write queue for one more event loop.
    pub(super) fn add_write_queue(&self, inbox: Arc<Inbox>) -> Arc<WriteQueue> {
        let write_queue = Arc::new(WriteQueue::new(inbox, self.group_bytes_max));
        self.write_queues.write().push(Arc::clone(&write_queue));
        write_queue
    }

    /// Nothing is committed from now on.
    pub(super) fn mark_closed(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }

    pub(super) fn metrics(&self) -> [Metric; 7] {
        let queued = self.queued();
        [
            Metric::histogram(
                "ladoga_commit_group_entries",
                "Writes that were committed together.",
                self.groups.distribution(),
            ),
            Metric::counter(
                "ladoga_commit_inline_groups_total",
                "Groups of writes that an event loop committed itself, not the committer thread.",
                self.inline_groups.load(Ordering::Relaxed),
            ),
            Metric::counter(
                "ladoga_commit_requested_syncs_total",
                "Syncs of the write-ahead log because a write asked for one (fsync=always), on a node that does not sync every write.",
                self.unsynced.syncs(),
            ),
            Metric::by_label(
                MetricKind::Counter,
                "ladoga_commit_queue_refused_total",
                "Writes refused because the commit queue was full, by the limit that was reached.",
                "bound",
                self.refusals.by_bound(),
            ),
            Metric::gauge(
                "ladoga_commit_queue_bytes",
                "Size of the writes in the commit queue.",
                queued.bytes,
            ),
            Metric::gauge(
                "ladoga_commit_queue_cost_units",
                "Cost of the writes in the commit queue: one unit a write, and one for each KiB of it.",
                queued.units,
            ),
            Metric::number(
                MetricKind::Gauge,
                "ladoga_commit_cost_unit_seconds",
                "Time to commit one more cost unit, as measured.",
                self.unit_ns.load(Ordering::Relaxed) as f64 / 1e9,
            ),
        ]
    }

    /// Whether writes are committed.
    pub(in super::super) fn check(&self) -> Result<(), StoreError> {
        if self.has_panicked.load(Ordering::Relaxed) { Err(panicked()) } else { Ok(()) }
    }

    pub(super) fn mark_panicked(&self) {
        self.has_panicked.store(true, Ordering::Relaxed);
        tracing::error!(
            "a write to the write-ahead log panicked; writes are refused until the node is restarted"
        );
    }

    /// Lets a write in if there is room for it. Counts it as refused if there is none.
    pub(in super::super) fn admit(&self) -> Result<(), StoreError> {
        self.check()?;
        self.find_room().map_err(|bound| {
            self.refusals.add(bound);
            StoreError::OverCapacity { bound: bound.reason() }
        })
    }

    /// Whether a write would be let in.
    pub(in super::super) fn has_room(&self) -> bool {
        self.check().is_ok() && self.find_room().is_ok()
    }

    fn find_room(&self) -> Result<(), Bound> {
        admit(self.queued(), self.unit_ns.load(Ordering::Relaxed), self.queue_bytes_max)
    }

    fn queued(&self) -> Cost {
        self.write_queues.read().iter().fold(Cost::default(), |sum, write_queue| sum + write_queue.queued())
    }

    /// Says that something was pushed into a write queue.
    pub(in super::super) fn pushed(&self) {
        // The write queue's lock orders this after the push, and the committer looks once more after it has set the flag.
        if self.is_parked.load(Ordering::SeqCst)
            && self.is_parked.swap(false, Ordering::SeqCst)
            && let Some(committer) = self.committer.get()
        {
            committer.wake();
        }
    }

    /// The durability of writes that ask for this one, or for none.
    pub(in super::super) fn durability(&self, asked: Option<Durability>) -> Durability {
        match asked {
            Some(asked) if asked > self.durability || self.may_be_weaker => asked,
            _ => self.durability,
        }
    }

    /// Whether a group that asks for nothing is synced before readers see it.
    pub(super) fn syncs_each_group(&self) -> bool {
        self.durability == Durability::Always
    }

    /// Whether writing a group with this durability takes a sync.
    pub(super) fn syncs_group(&self, durability: Durability) -> bool {
        durability == Durability::Always && self.syncs_each_group()
    }

    /// How the engine writes a group with this durability. In a store that does not sync each group, one that has to be on disk is
    /// written like any other, and synced afterwards.
    pub(super) fn written_as(&self, durability: Durability) -> Durability {
        if durability == Durability::Always { self.durability } else { durability }
    }

    pub(super) fn unsynced(&self) -> &UnsyncedWrites {
        &self.unsynced
    }

    /// Says what became of writes that were committed with this durability: at once, or after the sync that they wait for. On the
    /// committer.
    pub(super) fn deliver(
        &self,
        write_queue: &Arc<WriteQueue>,
        durability: Durability,
        mut result: CommitResult,
    ) {
        if !self.waits_for_sync(durability) {
            return write_queue.deliver(result);
        }
        // They are written: while they wait, they take no room in the queue.
        write_queue.deliver(CommitResult::of_none(std::mem::take(&mut result.load)));
        self.unsynced.push(Arc::clone(write_queue), result);
    }

    /// Whether writes of this durability are synced after they were written.
    pub(super) fn waits_for_sync(&self, durability: Durability) -> bool {
        durability == Durability::Always && !self.syncs_each_group()
    }

    pub(super) fn writer(&self) -> &GroupWriter {
        &self.writer
    }

    /// Has a feed begin, or move on, between two groups. May wait for the disk.
    pub(in super::super) fn begin_to_follow(&self, feed: &Feed) {
        self.writer.begin_to_follow(feed);
    }

    /// Restarts the observer between two groups, so that it is notified of each cell exactly once. Answers a snapshot of the
    /// store at that moment: what was there before is left to the scan. `None` if nothing is committed any more.
    pub(in super::super) fn begin_anew(&self) -> Option<Snapshot> {
        if self.is_closed() { None } else { self.writer.begin_to_tell() }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Whether the committer may wait until something is pushed, which it may not unless `is_empty`.
    pub(super) fn may_wait(&self, is_empty: impl FnOnce() -> bool) -> bool {
        self.is_parked.store(true, Ordering::SeqCst);
        is_empty() && !self.is_closed()
    }

    /// The committer waits no longer.
    pub(super) fn goes_on(&self) {
        self.is_parked.store(false, Ordering::SeqCst);
    }

    pub(super) fn write_queues(&self) -> Vec<Arc<WriteQueue>> {
        self.write_queues.read().clone()
    }

    pub(super) fn write_queues_count(&self) -> usize {
        self.write_queues.read().len()
    }

    /// A group was committed by an event loop.
    pub(super) fn count_inline_group(&self, entries: u64) {
        self.inline_groups.fetch_add(1, Ordering::Relaxed);
        self.count_group(entries);
    }

    /// A group was committed.
    pub(super) fn count_group(&self, entries: u64) {
        self.groups.add(entries);
    }

    pub(super) fn set_unit_ns(&self, unit_ns: u64) {
        self.unit_ns.store(unit_ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_under_the_bound_that_was_reached() {
        let refusals = Refusals::default();
        for bound in [Bound::Bytes, Bound::Wait, Bound::Bytes] {
            refusals.add(bound);
        }
        let expected = [("wait", 1.0), ("entries", 0.0), ("bytes", 2.0)];
        assert_eq!(refusals.by_bound(), expected.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn a_group_is_in_the_bucket_that_ends_at_its_size_or_above() {
        let sizes = GroupSizes::default();
        for entries in [1, 2, 3, 4, 4_096, 4_097] {
            sizes.add(entries);
        }
        let Distribution { buckets, count, sum } = sizes.distribution();
        let found: Vec<_> = buckets.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [(1.0, 1), (2.0, 1), (4.0, 2), (4_096.0, 1)]);
        assert_eq!((count, sum), (6, 8_203.0));
    }
}
