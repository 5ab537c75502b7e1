use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use ladoga_env::{Clock, Disk, Env, Rng};
use ladoga_model::HybridClock;
use ladoga_storage::{Engine, KeptDeletions, WriteBatch};
use parking_lot::Mutex;

use super::given::Given;
use super::kept::Kept;
use super::order::FeedOrder;
use super::place::{Live, Mark};
use super::ring::{Group, Ring};
use crate::store::{Arrivals, CellOrder, Metric};

/// The share of the memory budget that the last changes may take, while somebody follows them, and never more than the second.
const RING_MEMORY_SHARE: u64 = 64;
const RING_BYTES_MAX: u64 = 16 << 20;
/// For so long nobody has to follow before the last changes are not kept any more.
const UNFOLLOWED_MS_MAX: u64 = 60_000;
/// By how much more time than is needed is reserved at once, and when more is.
const RESERVED_AHEAD_MS: u64 = 10_000;
const RESERVED_AHEAD_MS_MIN: u64 = 5_000;
/// How soon saving is tried again if the disk is full, say.
const SAVE_RETRY_MS: u64 = 1_000;
/// How far the end of the feed may be behind the clock before it is moved on: or else the tokens of those who follow what does
/// not change would become too old.
const BEHIND_MS_MAX: u64 = 60_000;

/// The changes of a store, for all event loops and for the writer of groups.
pub(in super::super) struct Feed {
    pub(super) engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    pub(super) given: Given,
    /// How old the oldest token may be that can be gone on from: so long, deletions are kept.
    pub(super) kept_ms: u64,
    ring_bytes_max: usize,
    pub(super) order: OnceLock<FeedOrder>,
    /// How many changes have arrived, of a replica. Changes in the turn of the commit alone.
    arrived: AtomicU64,
    /// What a replica keeps of the deletions.
    pub(super) kept: Kept,
    /// Whether the ring is kept. Changes in the turn of the commit alone.
    is_followed: AtomicBool,
    inside: Mutex<Inside>,
    catch_ups: AtomicU64,
    /// When saving is tried again, after it failed.
    save_again_ms: AtomicU64,
}

#[derive(Default)]
struct Inside {
    ring: Option<Ring>,
    /// Whom to wake when there is more, one of each event loop.
    wakers: Vec<Waker>,
    followers: u64,
    /// When the last one left.
    left_ms: u64,
}

/// Somebody who follows.
pub(in super::super) struct Presence(Arc<Feed>);

impl Drop for Presence {
    fn drop(&mut self) {
        let mut inside = self.0.inside.lock();
        inside.followers -= 1;
        inside.left_ms = self.0.monotonic_ms();
    }
}

/// Which deletions are kept for tokens of a node on its own, none of which is after `reserved`.
fn kept_behind(reserved: u64, kept_ms: u64) -> KeptDeletions {
    let until_ms = HybridClock::wall_ms(reserved).saturating_add(kept_ms);
    KeptDeletions { age_ms: kept_ms, until_ms }
}

impl Feed {
    pub(in super::super) fn new(
        env: Env,
        dir: &Path,
        engine: Arc<Engine>,
        memory_bytes: u64,
        kept_ms: u64,
    ) -> Feed {
        let given = Given::open(&env.disk, dir);
        let kept = Kept::new(given.feed().is_some());
        Feed {
            engine,
            given,
            kept,
            clock: env.clock,
            rng: env.rng,
            kept_ms,
            ring_bytes_max: (memory_bytes / RING_MEMORY_SHARE).min(RING_BYTES_MAX) as usize,
            order: OnceLock::new(),
            arrived: AtomicU64::new(0),
            is_followed: AtomicBool::new(false),
            inside: Mutex::default(),
            catch_ups: AtomicU64::new(0),
            save_again_ms: AtomicU64::new(0),
        }
    }

    /// Its cells are committed in the order of their versions.
    pub(in super::super) fn order(&self, order: Arc<dyn CellOrder>) {
        let is_first = self.order.set(FeedOrder::Versions(order)).is_ok();
        assert!(is_first, "there is one order");
    }

    /// Its cells come from other nodes as well, in any order.
    pub(in super::super) fn order_of_arrival(&self, arrivals: Arc<dyn Arrivals>) {
        let is_first = self.order.set(FeedOrder::Arrival { arrivals, ring: self.rng.next_u64() | 1 }).is_ok();
        assert!(is_first, "there is one order");
    }

    /// No token of a node on its own is after this timestamp.
    pub(in super::super) fn reserved(&self) -> u64 {
        self.given.reserved()
    }

    fn monotonic_ms(&self) -> u64 {
        self.clock.monotonic_ns() / 1_000_000
    }

    pub(in super::super) fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// What [`Feed::keep_deletions`] is going to keep in a directory that is not open yet.
    pub(in super::super) fn kept_deletions(disk: &dyn Disk, dir: &Path, kept_ms: u64) -> KeptDeletions {
        let reserved = Given::reserved_in(disk, dir);
        reserved.map_or_else(KeptDeletions::default, |reserved| kept_behind(reserved, kept_ms))
    }

    /// As long as there are tokens of a node on its own that are not too old, so are the deletions that came after them.
    pub(in super::super) fn keep_deletions(&self) {
        if self.given.feed().is_some() {
            let KeptDeletions { age_ms, until_ms } = kept_behind(self.given.reserved(), self.kept_ms);
            self.engine.keep_deletions(age_ms, until_ms);
        }
    }

    // In the turn of the commit:

    /// These were committed, and can be read. Of a replica it is said which of them became the newest of their keys, by their numbers
    /// in all batches.
    pub(in super::super) fn committed(&self, batches: &[WriteBatch], became_newest: &[bool]) {
        if !self.is_followed.load(Ordering::Relaxed) {
            return;
        }
        let group = match self.known_order() {
            FeedOrder::Versions(order) => {
                let group = Group::of(batches);
                group.iter().for_each(|group| order.close_up_to(group.last()));
                group
            }
            FeedOrder::Arrival { .. } => {
                let last = self.arrived.load(Ordering::Relaxed);
                let group = Group::arrived(batches, became_newest, (last, self.settled()));
                self.arrived.store(group.as_ref().map_or(last, Group::last), Ordering::Relaxed);
                group
            }
        };
        let Some(group) = group else { return };
        let mut inside = self.inside.lock();
        if inside.followers == 0 && self.monotonic_ms().saturating_sub(inside.left_ms) > UNFOLLOWED_MS_MAX {
            self.is_followed.store(false, Ordering::Relaxed);
            inside.ring = None;
            return;
        }
        if let Some(ring) = &mut inside.ring {
            ring.push(group);
        }
        let wakers = std::mem::take(&mut inside.wakers);
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// A group failed, and a part of it may be readable: those who follow read the tables.
    pub(in super::super) fn lost_track(&self) {
        if !self.is_followed.load(Ordering::Relaxed) {
            return;
        }
        let place = self.new_place();
        let mut inside = self.inside.lock();
        if let Some(ring) = &mut inside.ring {
            ring.forget(place);
        }
        let wakers = std::mem::take(&mut inside.wakers);
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// From now on everything is in the ring; its end is now.
    pub(in super::super) fn begin(&self) {
        let place = self.new_place();
        let mut inside = self.inside.lock();
        match &mut inside.ring {
            Some(ring) => ring.advance(place),
            None => inside.ring = Some(Ring::new(place, self.ring_bytes_max)),
        }
        self.is_followed.store(true, Ordering::Relaxed);
    }

    /// A place behind all that was committed, and before all that will be.
    fn new_place(&self) -> u64 {
        match self.known_order() {
            FeedOrder::Versions(order) => order.close_all(),
            FeedOrder::Arrival { .. } => self.arrived.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    fn known_order(&self) -> &FeedOrder {
        self.order.get().expect("nothing is followed before the order of cells is known")
    }

    // On any thread:

    /// Somebody follows from now on; `None` if the store has no order.
    pub(in super::super) fn enter(self: &Arc<Self>) -> Option<Presence> {
        self.order.get()?;
        self.inside.lock().followers += 1;
        Some(Presence(Arc::clone(self)))
    }

    /// Whether there were followers until a moment ago.
    pub(in super::super) fn is_followed(&self) -> bool {
        self.is_followed.load(Ordering::Relaxed)
    }

    /// How far the end of the feed of a node on its own may be behind the clock.
    fn behind_ms_max(&self) -> u64 {
        BEHIND_MS_MAX.min(self.kept_ms / 4)
    }

    /// Whether [`Feed::prepare`] is to be called before a token is given, or the feed is followed.
    pub(in super::super) fn is_to_prepare(&self) -> bool {
        let Some(last) = self.last() else { return true };
        if self.monotonic_ms() < self.save_again_ms.load(Ordering::Relaxed) {
            return false;
        }
        if !self.is_given() || self.is_of_replica() {
            return !self.is_given();
        }
        let ahead_ms = HybridClock::wall_ms(self.given.reserved()).saturating_sub(HybridClock::wall_ms(last));
        let behind_ms = self.wall_ms().saturating_sub(HybridClock::wall_ms(last));
        ahead_ms < RESERVED_AHEAD_MS_MIN || behind_ms > self.behind_ms_max()
    }

    /// Begins to keep the last changes, or moves the end of the feed on, by `begin`, which has the turn of the commit; and
    /// reserves time for tokens, or keeps deletions. May wait for the disk.
    pub(in super::super) fn prepare(&self, begin: &dyn Fn()) -> io::Result<()> {
        let (last, is_of_replica) = (self.last(), self.is_of_replica());
        let behind_ms = |last| self.wall_ms().saturating_sub(HybridClock::wall_ms(last));
        if last.is_none_or(|last| !is_of_replica && behind_ms(last) > self.behind_ms_max()) {
            begin();
        }
        let saved = if is_of_replica { self.keep_from_now() } else { self.reserve_time() };
        if saved.is_err() {
            self.save_again_ms.store(self.monotonic_ms() + SAVE_RETRY_MS, Ordering::Relaxed);
        }
        saved
    }

    fn reserve_time(&self) -> io::Result<()> {
        let now_ms = self.wall_ms().max(HybridClock::wall_ms(self.last().unwrap_or(0)));
        let reserved = HybridClock::at_wall_ms(now_ms + RESERVED_AHEAD_MS);
        let saved = self.given.reserve(reserved, || self.rng.next_u64() | 1);
        self.keep_deletions();
        saved
    }

    /// Every cell of a replica that is older than this has arrived everywhere: deletions among them go, as far as they are not kept.
    pub(in super::super) fn drop_tombstones_before(&self, timestamp: u64) {
        self.kept.drop_before(timestamp, self.oldest_kept(), |timestamp| {
            self.engine.drop_tombstones_before(timestamp);
        });
    }

    /// The timestamp from which on deletions are young enough to be kept.
    pub(super) fn oldest_kept(&self) -> u64 {
        HybridClock::at_wall_ms(self.wall_ms().saturating_sub(self.kept_ms))
    }

    /// Whether it can be followed: what was prepared is there.
    pub(in super::super) fn is_prepared(&self) -> bool {
        self.last().is_some() && self.is_given()
    }

    /// The end of the feed; `None` if nobody follows.
    pub(in super::super) fn last(&self) -> Option<u64> {
        self.inside.lock().ring.as_ref().map(Ring::last)
    }

    /// The end of the feed now, and what is settled there.
    pub(in super::super) fn mark(&self) -> Mark {
        // In this order: what is settled is in the ring, or was before it; and what is there has a version that was seen.
        let settled = self.is_of_replica().then(|| self.settled());
        let at = self.last().unwrap_or(0);
        let newest = match self.order.get() {
            Some(FeedOrder::Arrival { arrivals, .. }) => arrivals.newest(),
            Some(FeedOrder::Versions(_)) | None => at,
        };
        Mark { at, settled, newest }
    }

    /// The same for who was told everything up to this place of the ring, which does not go back so far.
    pub(in super::super) fn mark_from(&self, live: Live) -> Mark {
        let mark = self.mark();
        if self.is_of_replica() {
            return Mark { settled: mark.settled.max(live.settled), ..mark };
        }
        Mark { at: mark.at.max(live.at), newest: mark.newest.max(live.at), ..mark }
    }

    /// The groups with changes behind this place, and the end of the feed; `None` if the tables have to be read.
    pub(in super::super) fn behind(&self, timestamp: u64) -> Option<(Vec<Arc<Group>>, u64)> {
        let inside = self.inside.lock();
        let ring = inside.ring.as_ref()?;
        Some((ring.behind(timestamp)?.cloned().collect(), ring.last()))
    }

    /// Ready once the feed has more than up to this place.
    pub(in super::super) fn poll_after(&self, timestamp: u64, context: &Context<'_>) -> Poll<()> {
        let mut inside = self.inside.lock();
        if inside.ring.as_ref().is_none_or(|ring| ring.last() > timestamp) {
            return Poll::Ready(());
        }
        if !inside.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            inside.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }

    /// A follower reads the tables from here on.
    pub(in super::super) fn count_catch_up(&self) {
        self.catch_ups.fetch_add(1, Ordering::Relaxed);
    }

    pub(in super::super) fn metrics(&self) -> [Metric; 3] {
        let (followers, ring_bytes) = {
            let inside = self.inside.lock();
            (inside.followers, inside.ring.as_ref().map_or(0, Ring::bytes))
        };
        [
            Metric::gauge("ladoga_changes_followers", "Requests that follow changes.", followers),
            Metric::gauge(
                "ladoga_changes_memory_bytes",
                "Memory for the last changes, for those who follow them.",
                ring_bytes as u64,
            ),
            Metric::counter(
                "ladoga_changes_catch_ups_total",
                "How often a follower began to read changes from the tables.",
                self.catch_ups.load(Ordering::Relaxed),
            ),
        ]
    }
}
