use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use ladoga_env::{Clock, Env, Rng};
use ladoga_model::{HybridClock, Quote};
use ladoga_service::{Error, Followed, Since};
use ladoga_storage::{Engine, WriteBatch};
use parking_lot::Mutex;

use super::given::Given;
use super::place::Place;
use super::ring::{Group, Ring};
use super::token::Token;
use crate::store::{CellOrder, Metric};

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
/// For how long the oldest token can still be used when it is given.
const OLDEST_GOOD_FOR_MS: u64 = 60_000;
/// How far the end of the feed may be behind the clock before it is moved on: or else the tokens of those who follow what does
/// not change would become too old.
const BEHIND_MS_MAX: u64 = 60_000;

/// The changes of a store, for all event loops and for the writer of groups.
pub(in super::super) struct Feed {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    given: Given,
    /// How old the oldest token may be that can be gone on from: so long, deletions are kept.
    kept_ms: u64,
    ring_bytes_max: usize,
    order: OnceLock<Arc<dyn CellOrder>>,
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

impl Feed {
    pub(in super::super) fn new(
        env: Env,
        dir: &Path,
        engine: Arc<Engine>,
        memory_bytes: u64,
        kept_ms: u64,
    ) -> Feed {
        let feed = Feed {
            engine,
            given: Given::open(&env.disk, dir),
            clock: env.clock,
            rng: env.rng,
            kept_ms,
            ring_bytes_max: (memory_bytes / RING_MEMORY_SHARE).min(RING_BYTES_MAX) as usize,
            order: OnceLock::new(),
            is_followed: AtomicBool::new(false),
            inside: Mutex::default(),
            catch_ups: AtomicU64::new(0),
            save_again_ms: AtomicU64::new(0),
        };
        feed.keep_deletions();
        feed
    }

    pub(in super::super) fn order(&self, order: Arc<dyn CellOrder>) {
        assert!(self.order.set(order).is_ok(), "there is one order");
    }

    /// No token is after this timestamp.
    pub(in super::super) fn reserved(&self) -> u64 {
        self.given.reserved()
    }

    fn monotonic_ms(&self) -> u64 {
        self.clock.monotonic_ns() / 1_000_000
    }

    pub(in super::super) fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// As long as there are tokens that are not too old, so are the deletions that came after them.
    fn keep_deletions(&self) {
        if self.given.feed().is_some() {
            let given_until_ms = HybridClock::wall_ms(self.given.reserved());
            self.engine.keep_deletions(self.kept_ms, given_until_ms.saturating_add(self.kept_ms));
        }
    }

    // In the turn of the commit:

    /// These were committed, and can be read.
    pub(in super::super) fn committed(&self, batches: &[WriteBatch]) {
        if !self.is_followed.load(Ordering::Relaxed) {
            return;
        }
        let Some(group) = Group::of(batches) else { return };
        self.order_of_cells().close_up_to(group.last());
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
        let timestamp = self.order_of_cells().close_all();
        let mut inside = self.inside.lock();
        if let Some(ring) = &mut inside.ring {
            ring.forget(timestamp);
        }
        let wakers = std::mem::take(&mut inside.wakers);
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// From now on everything is in the ring; its end is now.
    pub(in super::super) fn begin(&self) {
        let timestamp = self.order_of_cells().close_all();
        let mut inside = self.inside.lock();
        match &mut inside.ring {
            Some(ring) => ring.advance(timestamp),
            None => inside.ring = Some(Ring::new(timestamp, self.ring_bytes_max)),
        }
        self.is_followed.store(true, Ordering::Relaxed);
    }

    fn order_of_cells(&self) -> &dyn CellOrder {
        &**self.order.get().expect("nothing is followed before the order of cells is known")
    }

    // On any thread:

    /// Somebody follows from now on; `None` if the store has no order.
    pub(in super::super) fn enter(self: &Arc<Self>) -> Option<Presence> {
        self.order.get()?;
        self.inside.lock().followers += 1;
        Some(Presence(Arc::clone(self)))
    }

    /// How far the end of the feed may be behind the clock.
    fn behind_ms_max(&self) -> u64 {
        BEHIND_MS_MAX.min(self.kept_ms / 4)
    }

    /// Whether [`Feed::prepare`] is to be called before a token is given, or the feed is followed.
    pub(in super::super) fn is_to_prepare(&self) -> bool {
        let Some(last) = self.last() else { return true };
        if self.monotonic_ms() < self.save_again_ms.load(Ordering::Relaxed) {
            return false;
        }
        let ahead_ms = HybridClock::wall_ms(self.given.reserved()).saturating_sub(HybridClock::wall_ms(last));
        let behind_ms = self.wall_ms().saturating_sub(HybridClock::wall_ms(last));
        self.given.feed().is_none() || ahead_ms < RESERVED_AHEAD_MS_MIN || behind_ms > self.behind_ms_max()
    }

    /// Begins to keep the last changes, or moves the end of the feed on, by `begin`, which has the turn of the commit; and
    /// reserves time for tokens. May wait for the disk.
    pub(in super::super) fn prepare(&self, begin: &dyn Fn()) -> io::Result<()> {
        let last = self.last();
        if last.is_none_or(|last| {
            self.wall_ms().saturating_sub(HybridClock::wall_ms(last)) > self.behind_ms_max()
        }) {
            begin();
        }
        let now_ms = self.wall_ms().max(HybridClock::wall_ms(self.last().unwrap_or(0)));
        let reserved = HybridClock::at_wall_ms(now_ms + RESERVED_AHEAD_MS);
        let saved = self.given.reserve(reserved, || self.rng.next_u64());
        if saved.is_err() {
            self.save_again_ms.store(self.monotonic_ms() + SAVE_RETRY_MS, Ordering::Relaxed);
        }
        self.keep_deletions();
        saved
    }

    /// Whether it can be followed: what was prepared is there.
    pub(in super::super) fn is_prepared(&self) -> bool {
        self.last().is_some() && self.given.feed().is_some()
    }

    /// The end of the feed; `None` if nobody follows.
    pub(in super::super) fn last(&self) -> Option<u64> {
        self.inside.lock().ring.as_ref().map(Ring::last)
    }

    /// The groups with changes after this timestamp, and the end of the feed; `None` if the tables have to be read.
    pub(in super::super) fn behind(&self, timestamp: u64) -> Option<(Vec<Arc<Group>>, u64)> {
        let inside = self.inside.lock();
        let ring = inside.ring.as_ref()?;
        Some((ring.behind(timestamp)?.cloned().collect(), ring.last()))
    }

    /// Ready once the feed has more than up to this timestamp.
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

    /// The oldest timestamp after which all deletions are still there.
    pub(in super::super) fn horizon(&self) -> u64 {
        HybridClock::at_wall_ms(self.wall_ms().saturating_sub(self.kept_ms))
    }

    /// A token of this place, if one may be given.
    pub(in super::super) fn token_of(&self, place: &Place) -> Option<Box<str>> {
        let (since, scanned) = place.progress();
        let newest = scanned.as_ref().map_or(since, |scanned| scanned.up_to.max(since));
        let feed = self.given.feed().filter(|_| newest <= self.given.reserved())?;
        Some(Token { feed, since, scanned }.encode())
    }

    /// Where to begin, once it is prepared.
    pub(in super::super) fn place_of(&self, followed: &Followed) -> Result<Place, Error> {
        let last = self.last().unwrap_or(0);
        let span = &followed.span;
        let text: &Bytes = match &followed.since {
            Since::Now => return Ok(Place::at(last)),
            Since::Beginning => return Ok(Place::scanning(span, (0, None), last)),
            Since::Token(text) => text,
        };
        let Some(Token { feed, since, scanned }) = Token::decode(text) else {
            return Err(Error::NoToken { found: Quote::of(text) });
        };
        if self.given.feed() != Some(feed) {
            return Err(self.gone("the token is of another data directory"));
        }
        let up_to = scanned.as_ref().map_or(since, |scanned| scanned.up_to);
        if since.max(up_to) > self.given.reserved() {
            return Err(self.gone("the token is newer than the data directory, which may be a backup"));
        }
        let horizon = self.horizon();
        // Who has been told nothing yet needs no deletions.
        if [since, up_to].into_iter().any(|needed| 0 < needed && needed < horizon) {
            return Err(self.gone("the token is too old: deletions that came after it may be gone"));
        }
        if scanned.is_none() && self.behind(since).is_some() {
            return Ok(Place::at(since));
        }
        Ok(Place::scanning(span, (since, scanned), last.max(up_to)))
    }

    fn gone(&self, reason: &'static str) -> Error {
        // It has to be good for long enough to be used.
        let oldest_ms = HybridClock::wall_ms(self.horizon()) + (self.kept_ms / 2).min(OLDEST_GOOD_FOR_MS);
        let oldest = self.token_of(&Place::at(HybridClock::at_wall_ms(oldest_ms).min(self.given.reserved())));
        Error::ChangesGone { reason, oldest: oldest.unwrap_or_default() }
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
