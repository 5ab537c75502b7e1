use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use ladoga_cluster::{ClockReading, ExpiryTime, NodeId, PeerClocks, TimeBounds};
use ladoga_model::{ClockError, HybridClock};
use parking_lot::Mutex;

use crate::planted::{Bug, has};

/// How far off the majority's the wall clock must be to be logged, and to be logged again once it is not any more.
const OFF_MS_MIN: u64 = 5_000;
const BACK_MS_MAX: u64 = 2_000;

/// What time it is by a majority of the nodes: [`PeerClocks`] for all threads of a node. Who stamps or takes a write goes by
/// the bounds that are published here, without a lock; each of them is of use on its own, so they may be of two moments.
pub(crate) struct ClusterTime {
    ahead_ms_max: u64,
    peers: Mutex<PeerClocks>,
    earliest_ms: AtomicI64,
    latest_ms: AtomicI64,
    passed_ms: AtomicPair,
    first_ms: AtomicPair,
    last_ms: AtomicPair,
    is_unverified: AtomicBool,
    reached_ms: AtomicU64,
    majority_ms: AtomicU64,
    /// Whether it was logged that the wall clock is off.
    is_off: AtomicBool,
}

/// Two bounds, each of use on its own.
struct AtomicPair(AtomicI64, AtomicI64);

impl AtomicPair {
    const fn new((min_ms, max_ms): (i64, i64)) -> AtomicPair {
        AtomicPair(AtomicI64::new(min_ms), AtomicI64::new(max_ms))
    }

    fn load(&self) -> (i64, i64) {
        (self.0.load(Ordering::Acquire), self.1.load(Ordering::Acquire))
    }

    fn store(&self, (min_ms, max_ms): (i64, i64)) {
        self.0.store(min_ms, Ordering::Release);
        self.1.store(max_ms, Ordering::Release);
    }
}

impl ClusterTime {
    pub(crate) fn new(own: NodeId, nodes: usize, ahead_ms_max: u64, monotonic_ms: u64) -> ClusterTime {
        let peers = PeerClocks::new(own, nodes, ahead_ms_max, monotonic_ms);
        let bounds = peers.bounds(monotonic_ms);
        ClusterTime {
            ahead_ms_max,
            peers: Mutex::new(peers),
            earliest_ms: AtomicI64::new(bounds.earliest_ms),
            latest_ms: AtomicI64::new(bounds.latest_ms),
            passed_ms: AtomicPair::new(bounds.passed_ms),
            first_ms: AtomicPair::new(bounds.first_ms),
            last_ms: AtomicPair::new(bounds.last_ms),
            is_unverified: AtomicBool::new(bounds.is_unverified),
            reached_ms: AtomicU64::new(bounds.reached_ms),
            majority_ms: AtomicU64::new(bounds.majority_ms),
            is_off: AtomicBool::new(false),
        }
    }

    /// See [`PeerClocks::starts_after`].
    pub(crate) fn starts_after(&self, timestamp: u64, monotonic_ms: u64) {
        self.change(monotonic_ms, |peers| peers.starts_after(timestamp));
    }

    /// See [`PeerClocks::heard`].
    pub(crate) fn heard(
        &self,
        peer: NodeId,
        reading: ClockReading,
        monotonic_ms: u64,
        round_trip_ms: Option<u64>,
    ) {
        self.change(monotonic_ms, |peers| peers.heard(peer, reading, monotonic_ms, round_trip_ms));
    }

    /// See [`TimeBounds::time_ms`].
    pub(crate) fn time_ms(&self, wall_ms: u64, monotonic_ms: u64) -> u64 {
        if has(Bug::TrustOwnClock) { wall_ms } else { self.bounds().time_ms(wall_ms, monotonic_ms) }
    }

    /// See [`TimeBounds::expiry_time_ms`].
    pub(crate) fn expiry_time_ms(&self, wall_ms: u64, monotonic_ms: u64) -> u64 {
        if has(Bug::TrustOwnClock) { wall_ms } else { self.bounds().expiry_time_ms(wall_ms, monotonic_ms) }
    }

    /// See [`TimeBounds::expiry_time`]. Clocks that are right are no further apart than versions may be ahead.
    pub(crate) fn expiry_time(&self, wall_ms: u64, monotonic_ms: u64) -> ExpiryTime {
        if has(Bug::TrustOwnClock) {
            return ExpiryTime { earliest_ms: wall_ms, latest_ms: wall_ms };
        }
        self.bounds().expiry_time(wall_ms, monotonic_ms, self.ahead_ms_max)
    }

    /// Whether too few peers were heard to know what time it is by a majority.
    pub(crate) fn is_unverified(&self) -> bool {
        self.is_unverified.load(Ordering::Acquire)
    }

    /// See [`TimeBounds::check_ahead`].
    pub(crate) fn check_ahead(
        &self,
        timestamp: u64,
        wall_ms: u64,
        monotonic_ms: u64,
    ) -> Result<(), ClockError> {
        if has(Bug::TrustOwnClock) {
            return HybridClock::check_ahead(timestamp, wall_ms, self.ahead_ms_max);
        }
        self.bounds().check_ahead(timestamp, (wall_ms, monotonic_ms), self.ahead_ms_max)
    }

    /// See [`TimeBounds::cut`].
    pub(crate) fn cut(&self, timestamp: u64, wall_ms: u64, monotonic_ms: u64) -> u64 {
        self.bounds().cut(timestamp, (wall_ms, monotonic_ms), self.ahead_ms_max)
    }

    /// See [`TimeBounds::correction_ms`].
    pub(crate) fn correction_ms(&self, wall_ms: u64, monotonic_ms: u64) -> Option<i64> {
        self.bounds().correction_ms(wall_ms, monotonic_ms)
    }

    /// See [`PeerClocks::offset_ms`].
    pub(crate) fn offset_ms(&self, peer: NodeId, wall_ms: u64, monotonic_ms: u64) -> Option<i64> {
        self.peers.lock().offset_ms(peer, wall_ms, monotonic_ms)
    }

    /// Logs when the wall clock begins to be off, and when that ends.
    pub(crate) fn look(&self, wall_ms: u64, monotonic_ms: u64) {
        self.change(monotonic_ms, |peers| peers.tick(wall_ms, monotonic_ms));
        let Some(correction_ms) = self.correction_ms(wall_ms, monotonic_ms) else { return };
        let off_ms = correction_ms.unsigned_abs();
        let was_off = self.is_off.load(Ordering::Relaxed);
        if !was_off && off_ms >= OFF_MS_MIN {
            let side = if correction_ms > 0 { "ahead of" } else { "behind" };
            tracing::warn!(
                "the clock of this machine is {off_ms} ms {side} the clocks of a majority of the nodes; the node uses the \
                 majority's time until then: set the clock"
            );
        } else if was_off && off_ms < BACK_MS_MAX {
            tracing::warn!(
                "the clock of this machine agrees with the clocks of a majority of the nodes again"
            );
        }
        let is_off = if was_off { off_ms >= BACK_MS_MAX } else { off_ms >= OFF_MS_MIN };
        self.is_off.store(is_off, Ordering::Relaxed);
    }

    fn bounds(&self) -> TimeBounds {
        // First: whoever sees that enough was heard must see the result as well.
        let is_unverified = self.is_unverified.load(Ordering::Acquire);
        // The same for whoever sees that it is known what time it is.
        let last_ms = self.last_ms.load();
        TimeBounds {
            earliest_ms: self.earliest_ms.load(Ordering::Relaxed),
            latest_ms: self.latest_ms.load(Ordering::Relaxed),
            passed_ms: self.passed_ms.load(),
            first_ms: self.first_ms.load(),
            last_ms,
            is_unverified,
            reached_ms: self.reached_ms.load(Ordering::Relaxed),
            majority_ms: self.majority_ms.load(Ordering::Relaxed),
        }
    }

    fn change(&self, monotonic_ms: u64, change: impl FnOnce(&mut PeerClocks)) {
        let mut peers = self.peers.lock();
        change(&mut peers);
        // Under the lock, so that the last one to change is the last one to publish.
        let bounds = peers.bounds(monotonic_ms);
        self.earliest_ms.store(bounds.earliest_ms, Ordering::Relaxed);
        self.latest_ms.store(bounds.latest_ms, Ordering::Relaxed);
        self.passed_ms.store(bounds.passed_ms);
        self.first_ms.store(bounds.first_ms);
        self.reached_ms.store(bounds.reached_ms, Ordering::Relaxed);
        self.majority_ms.store(bounds.majority_ms, Ordering::Relaxed);
        self.last_ms.store(bounds.last_ms);
        self.is_unverified.store(bounds.is_unverified, Ordering::Release);
    }
}
