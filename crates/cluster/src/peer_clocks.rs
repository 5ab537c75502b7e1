//! The clocks of the other nodes, and from them the time by a majority of all nodes.
//!
//! Every node reports its wall clock unchanged, however wrong it is. A reported clock is extrapolated by the monotonic clock of
//! this node, so if a wall clock jumps, that is noticed at the next look, before any node reports it.
//!
//! With `n` nodes, a majority is `n / 2` peers and this node. So the wall clock of this node
//!
//! - counts no further ahead than the `n / 2`-th latest peer: a majority shows no more than that with it;
//! - counts no further behind than the next one: a majority without it shows at least that.
//!
//! Between the two it counts as it is. Both bounds use recent reports only: what a node reported before it went away may have
//! been wrong. If there are too few recent reports, the time that was agreed on last is extrapolated by the monotonic clock,
//! and the wall clock counts no further ahead than that. After a start, until enough nodes have reported, the newest version in
//! the store serves as that time.
//!
//! That errs on the side of what is behind: a version that is too old loses, and is written again. For values that
//! expire, neither side is safe: one brings back what had expired, the other ends what lives. So for that, it is also told how late it may be ([`TimeBounds::expiry_time`]). While a bare majority is
//! heard, all but one of its clocks may be wrong, and it is unknown which one is right.
//!
//! As long as a majority of the clocks is right, the resulting time lies between clocks that are right, on every node. Computed
//! times are never reported to others: so one wrong clock cannot move the others' step by step.

use ladoga_model::{ClockError, HybridClock};

use crate::nodes::NodeId;
use crate::stability::RESERVE_MS;

/// How far a wall clock may be off the majority's and still count as it is: more than a message takes.
pub const CLOCK_MARGIN_MS: u64 = 1_000;
/// An answer that took longer does not say well enough what the clock of its sender shows.
const ROUND_TRIP_MS_MAX: u64 = 1_000;
/// What is lost where two clocks are read in whole milliseconds.
const ROUNDING_MS: u64 = 2;
/// How long a report counts as recent: ten times the interval of reports.
const LATELY_MS: u64 = 5_000;
/// The latest time that a timestamp has room for.
const WALL_MS_MAX: u64 = HybridClock::wall_ms(u64::MAX);

/// What a node reports about its clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// What its wall clock shows, in milliseconds since 1970.
    pub wall_ms: u64,
    /// The timestamp of its version clock; 0 if it does not report one.
    pub version_clock: u64,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    /// Its wall clock minus the monotonic clock of this node.
    offset_ms: i64,
    /// When it was heard, by the monotonic clock.
    at_ms: u64,
    /// How long that was under way at most; none if that is not known well enough.
    under_way_ms: Option<u64>,
    /// The time of its clock of versions.
    version_ms: u64,
}

/// The clocks of the peers of a node, in the life of one process.
#[derive(Debug)]
pub struct PeerClocks {
    me: NodeId,
    heard: Vec<Option<Heard>>,
    ahead_ms_max: u64,
    started_ms: u64,
    /// The time of the newest version that was here before.
    floor_ms: u64,
    /// The time that was agreed on last, minus the monotonic clock.
    agreed_offset_ms: Option<i64>,
    /// What more clocks had reached than may be wrong, that of this node among them, minus the monotonic clock.
    passed_offset_ms: Option<i64>,
    /// Whether so many clocks were heard at once, in the life of this process, that those that are wrong were outnumbered. From then
    /// on, what had passed goes on by the monotonic clock.
    is_certain: bool,
    /// The latest time by a majority so far.
    reached_ms: u64,
}

/// What time it is for values that expire: it is somewhere between the two, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryTime {
    /// Clocks that cannot all be wrong have reached this.
    pub earliest_ms: u64,
    /// Clocks that cannot all be wrong have not passed this.
    pub latest_ms: u64,
}

impl ExpiryTime {
    /// The time, if it is known.
    pub fn exact_ms(&self) -> Option<u64> {
        (self.earliest_ms == self.latest_ms).then_some(self.earliest_ms)
    }

    /// Whether a value that expires then has expired; none if it depends on which clock is right.
    pub const fn has_expired(&self, expires_at_ms: u64) -> Option<bool> {
        if expires_at_ms <= self.earliest_ms {
            return Some(true);
        }
        if expires_at_ms > self.latest_ms { Some(false) } else { None }
    }
}

/// The time, and which versions are acceptable, until the next report. Plain numbers, so that a driver can keep them in atomics
/// for all its threads; each is of use on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBounds {
    /// The earliest that it can be, counted from the monotonic clock.
    pub earliest_ms: i64,
    /// The latest that it can be, counted from the monotonic clock.
    pub latest_ms: i64,
    /// More clocks had reached this than may be wrong, or a majority had versions of then: the wall clock of this node, but no less
    /// than the first and no more than the second of these, counted from the monotonic clock. What had expired by then does not come
    /// back while only some are heard, which are behind: a majority may have one that is wrong.
    pub passed_ms: (i64, i64),
    /// For values that expire, it is at least what more clocks show than may be wrong: the same of these.
    pub first_ms: (i64, i64),
    /// And it is no later than what the wall clock shows, but no less than the first and no more than the second of these. No later
    /// than what it is at least, if enough clocks were heard to know that.
    pub last_ms: (i64, i64),
    /// The wall clock of this node counts for what it takes, since too few peers were heard to know better.
    pub is_unverified: bool,
    /// Versions are judged as if it was at least this late.
    pub reached_ms: u64,
    /// Versions up to this time are taken in any case: a majority without this node is there.
    pub majority_ms: u64,
}

impl TimeBounds {
    /// What time it is, as this node stamps: the wall clock as far as a majority agrees with it.
    pub fn time_ms(&self, wall_ms: u64, monotonic_ms: u64) -> u64 {
        let (earliest_ms, latest_ms) = (at(self.earliest_ms, monotonic_ms), at(self.latest_ms, monotonic_ms));
        wall_ms.max(earliest_ms).min(latest_ms).min(WALL_MS_MAX)
    }

    /// What time it is for values that expire: by the clocks that are heard, but not before what has passed. Without the margin that
    /// versions have: a node whose clock is ahead would end values that much before the others do, and they would come back there.
    pub fn expiry_time_ms(&self, wall_ms: u64, monotonic_ms: u64) -> u64 {
        let [shown_ms, passed_ms] =
            [self.first_ms, self.passed_ms].map(|bounds| between(wall_ms, bounds, monotonic_ms));
        shown_ms.max(passed_ms).min(WALL_MS_MAX)
    }

    /// The same, with how late it can be: clocks that are right may be so far apart, and then the time that is behind counts.
    pub fn expiry_time(&self, wall_ms: u64, monotonic_ms: u64, apart_ms_max: u64) -> ExpiryTime {
        let earliest_ms = self.expiry_time_ms(wall_ms, monotonic_ms);
        let latest_ms = between(wall_ms, self.last_ms, monotonic_ms).min(WALL_MS_MAX);
        let is_apart = latest_ms > earliest_ms.saturating_add(apart_ms_max);
        ExpiryTime { earliest_ms, latest_ms: if is_apart { latest_ms } else { earliest_ms } }
    }

    /// Whether a version is not too far ahead to be accepted, whichever node gave it out, including this one.
    pub fn check_ahead(
        &self,
        timestamp: u64,
        (wall_ms, monotonic_ms): (u64, u64),
        ahead_ms_max: u64,
    ) -> Result<(), ClockError> {
        let ahead_ms = self.ahead_ms(timestamp, wall_ms, monotonic_ms);
        if ahead_ms <= ahead_ms_max || HybridClock::wall_ms(timestamp) <= self.majority_ms {
            return Ok(());
        }
        Err(ClockError { ahead_ms, ahead_ms_max })
    }

    /// The last timestamp before `timestamp`, or itself, that is not too far ahead.
    pub fn cut(&self, timestamp: u64, (wall_ms, monotonic_ms): (u64, u64), ahead_ms_max: u64) -> u64 {
        let ahead_ms = self.ahead_ms(timestamp, wall_ms, monotonic_ms);
        let version_ms = HybridClock::wall_ms(timestamp);
        let taken_ms = (version_ms - ahead_ms.saturating_sub(ahead_ms_max)).max(self.majority_ms);
        if taken_ms < version_ms { HybridClock::at_wall_ms(taken_ms + 1) - 1 } else { timestamp }
    }

    fn ahead_ms(&self, timestamp: u64, wall_ms: u64, monotonic_ms: u64) -> u64 {
        let time_ms = self.time_ms(wall_ms, monotonic_ms).max(self.reached_ms);
        let time_ms = if self.is_unverified { time_ms.max(wall_ms) } else { time_ms };
        HybridClock::wall_ms(timestamp).saturating_sub(time_ms)
    }

    /// By how much the wall clock is ahead of the time that counts; negative if it is behind, 0 if it counts as it is. None if
    /// too few peers were heard to know.
    pub fn correction_ms(&self, wall_ms: u64, monotonic_ms: u64) -> Option<i64> {
        let time_ms = self.time_ms(wall_ms, monotonic_ms);
        (!self.is_unverified).then(|| wall_ms.cast_signed().saturating_sub(time_ms.cast_signed()))
    }
}

impl PeerClocks {
    /// For a node of a cluster of so many, whose process starts now; a version may be `ahead_ms_max` ahead.
    pub fn new(me: NodeId, nodes: usize, ahead_ms_max: u64, monotonic_ms: u64) -> PeerClocks {
        PeerClocks {
            me,
            heard: vec![None; nodes],
            ahead_ms_max,
            started_ms: monotonic_ms,
            floor_ms: 0,
            agreed_offset_ms: None,
            passed_offset_ms: None,
            is_certain: false,
            reached_ms: 0,
        }
    }

    /// The node had given out or seen this timestamp before it started.
    pub fn starts_after(&mut self, timestamp: u64) {
        self.floor_ms = self.floor_ms.max(HybridClock::wall_ms(timestamp));
    }

    /// A peer reports its clocks. `round_trip_ms` is how long its answer took; none if it is unknown when the request was sent.
    pub fn heard(
        &mut self,
        peer: NodeId,
        reading: ClockReading,
        monotonic_ms: u64,
        round_trip_ms: Option<u64>,
    ) {
        assert_ne!(peer, self.me, "a node does not hear itself");
        let ClockReading { wall_ms, version_clock } = reading;
        let offset_ms = wall_ms.min(WALL_MS_MAX).cast_signed() - monotonic_ms.cast_signed();
        let under_way_ms = round_trip_ms.filter(|&round_trip_ms| round_trip_ms <= ROUND_TRIP_MS_MAX);
        let known = &mut self.heard[peer.index()];
        let mut heard =
            known.unwrap_or(Heard { offset_ms, at_ms: monotonic_ms, under_way_ms, version_ms: 0 });
        if heard.under_way_ms.is_none() || under_way_ms.is_some() {
            heard = Heard { offset_ms, at_ms: monotonic_ms, under_way_ms, ..heard };
        }
        if version_clock > 0 {
            heard.version_ms = HybridClock::wall_ms(version_clock);
        }
        *known = Some(heard);
    }

    /// Time went by: what a majority has reached stays reached, even if all clocks are set back.
    pub fn tick(&mut self, wall_ms: u64, monotonic_ms: u64) {
        let bounds = self.bounds(monotonic_ms);
        if bounds.is_unverified {
            return;
        }
        let time_ms = bounds.time_ms(wall_ms, monotonic_ms);
        self.reached_ms = self.reached_ms.max(time_ms);
        self.note_passed(wall_ms, monotonic_ms);
        self.is_certain |= self.lately(monotonic_ms).len() >= 2 * self.wrong_max();
        if self.lately(monotonic_ms).len() >= self.needed() {
            self.agreed_offset_ms = Some(time_ms.cast_signed() - monotonic_ms.cast_signed());
        }
    }

    /// Takes note of what more clocks show than may be wrong. If not all are heard, those that are may be the ones that are
    /// behind, and it stays what it was.
    fn note_passed(&mut self, wall_ms: u64, monotonic_ms: u64) {
        let own_ms = wall_ms.min(WALL_MS_MAX).cast_signed() - monotonic_ms.cast_signed();
        let lately = self.lately(monotonic_ms);
        let is_each_heard = lately.len() + 1 == self.heard.len();
        let (min_ms, max_ms) = self.passed_bounds(&lately);
        let known = (!is_each_heard).then(|| own_ms.min(max_ms).max(min_ms));
        let shown = latest_first(lately.into_iter().chain([own_ms]));
        self.passed_offset_ms = shown.get(self.wrong_max()).copied().max(known);
    }

    /// What time it is by all that was heard; to be asked for again now and then, since it grows old.
    pub fn bounds(&self, monotonic_ms: u64) -> TimeBounds {
        let (needed, lately) = (self.needed(), self.lately(monotonic_ms));
        let versions = self.heard.iter().flatten().map(|heard| heard.version_ms).filter(|&ms| ms > 0);
        let versions = latest_first(versions);
        let margin_ms = CLOCK_MARGIN_MS.min(self.ahead_ms_max / 2).cast_signed();
        let is_agreed = lately.len() >= needed;
        let is_unverified = !is_agreed && self.agreed_offset_ms.is_none();
        let latest_ms = match (needed, self.agreed_offset_ms) {
            // A node on its own has no peers to ask.
            (0, _) => i64::MAX,
            (_, _) if is_agreed => lately[needed - 1] + margin_ms,
            (_, Some(offset_ms)) => offset_ms + margin_ms,
            (_, None) => self.floor_ms.cast_signed() - self.started_ms.cast_signed(),
        };
        let earliest_ms =
            lately.get(needed).map_or(i64::MIN, |offset_ms| offset_ms - margin_ms).min(latest_ms);
        // As far as a majority was there, too: one node that was far ahead once is not right for that.
        let shared_ms = needed.checked_sub(1).and_then(|last| versions.get(last).copied());
        let floor_ms = self.floor_ms.min(shared_ms.unwrap_or(u64::MAX));
        TimeBounds {
            earliest_ms,
            latest_ms,
            passed_ms: self.passed_bounds(&lately),
            first_ms: self.first_bounds(&lately, monotonic_ms).unwrap_or((earliest_ms, latest_ms)),
            last_ms: self.last_bounds(&lately),
            is_unverified,
            reached_ms: self.reached_ms.max(floor_ms),
            majority_ms: versions.get(needed).copied().unwrap_or(0),
        }
    }

    /// What had passed when it was noted last; before that, as far as the versions say that were here.
    fn passed_bounds(&self, lately: &[i64]) -> (i64, i64) {
        if let Some(passed_ms) = self.passed_offset_ms {
            return (passed_ms, passed_ms);
        }
        let Some(before_ms) = self.before() else { return (i64::MIN, i64::MIN) };
        // Versions may be ahead of all clocks. But no node ever went by a time that no more clocks had reached than may be
        // wrong. Those that are not heard may be the latest ones, so of the others, it takes as many fewer.
        let silent = self.heard.len() - 1 - lately.len();
        let Some(place) = self.wrong_max().checked_sub(silent) else { return (i64::MIN, i64::MIN) };
        let (min_ms, max_ms) = at_place(lately, place);
        (min_ms.min(before_ms), max_ms.min(before_ms))
    }

    /// The newest version that was here before this process, which is as late as it was then, or was reserved for soon after. As far
    /// as a majority has versions of then, too.
    fn before(&self) -> Option<i64> {
        let versions = self.heard.iter().flatten().map(|heard| heard.version_ms).filter(|&ms| ms > 0);
        let shared_ms = latest_first(versions).get(self.needed().checked_sub(1)?).copied()?;
        let floor_ms = shared_ms.min(self.floor_ms.saturating_sub(RESERVE_MS)).cast_signed();
        Some(floor_ms - self.started_ms.cast_signed())
    }

    /// Between what the wall clock of this node counts, so that of all clocks that are heard, it included, more have reached the outcome
    /// than may be wrong. None if too few are heard, or none may be wrong: then the one that is behind counts, as it does for versions.
    fn first_bounds(&self, lately: &[i64], monotonic_ms: u64) -> Option<(i64, i64)> {
        let (wrong_max, at_most) = (self.wrong_max(), self.lately_at_most(monotonic_ms));
        let is_known = wrong_max > 0 && lately.len() >= self.needed();
        is_known.then(|| (at_place(lately, wrong_max).0, at_place(&at_most, wrong_max).1))
    }

    /// The same so that more have not passed it. Nothing, if it is known what time it is.
    fn last_bounds(&self, latest_first: &[i64]) -> (i64, i64) {
        let wrong_max = self.wrong_max();
        if self.is_certain || latest_first.len() >= 2 * wrong_max {
            return (i64::MIN, i64::MIN);
        }
        let mut earliest_first = latest_first.iter().rev();
        let min_ms = earliest_first.nth(wrong_max - 1).copied().unwrap_or(i64::MAX);
        (min_ms, earliest_first.next().copied().unwrap_or(i64::MAX))
    }

    /// How many clocks may be wrong, so that those of a majority are right.
    const fn wrong_max(&self) -> usize {
        (self.heard.len() - 1) / 2
    }

    /// How many peers make a majority with this node.
    const fn needed(&self) -> usize {
        self.heard.len() / 2
    }

    /// The clocks that were reported recently, minus the monotonic clock; the latest time first.
    fn lately(&self, monotonic_ms: u64) -> Vec<i64> {
        latest_first(self.recent(monotonic_ms).map(|heard| heard.offset_ms))
    }

    /// The same, if each of them took as long to arrive as it may have. A clock that is right counts as it is, however late the others
    /// are heard; otherwise the time would go back whenever they are heard later.
    fn lately_at_most(&self, monotonic_ms: u64) -> Vec<i64> {
        let late_ms = |heard: &Heard| heard.under_way_ms.unwrap_or(CLOCK_MARGIN_MS) + ROUNDING_MS;
        let at_most = |heard: &Heard| heard.offset_ms.saturating_add_unsigned(late_ms(heard));
        latest_first(self.recent(monotonic_ms).map(at_most))
    }

    fn recent(&self, monotonic_ms: u64) -> impl Iterator<Item = &Heard> {
        let is_recent = move |heard: &&Heard| heard.at_ms + LATELY_MS >= monotonic_ms;
        self.heard.iter().flatten().filter(is_recent)
    }

    /// The wall clock of a peer minus that of this node, from its last report.
    pub fn offset_ms(&self, peer: NodeId, wall_ms: u64, monotonic_ms: u64) -> Option<i64> {
        let heard = self.heard[peer.index()].as_ref()?;
        Some(heard.offset_ms.saturating_add_unsigned(monotonic_ms).saturating_sub(wall_ms.cast_signed()))
    }
}

/// The time at a moment of the monotonic clock that it is counted from.
fn at(offset_ms: i64, monotonic_ms: u64) -> u64 {
    offset_ms.saturating_add_unsigned(monotonic_ms).max(0).cast_unsigned()
}

/// A wall clock, but no less than the first and no more than the second of two moments.
fn between(wall_ms: u64, (min_ms, max_ms): (i64, i64), monotonic_ms: u64) -> u64 {
    wall_ms.min(at(max_ms, monotonic_ms)).max(at(min_ms, monotonic_ms))
}

/// Between what one more clock counts as that of this place among all, the latest one at 0.
fn at_place(latest_first: &[i64], place: usize) -> (i64, i64) {
    let min_ms = latest_first.get(place).copied().unwrap_or(i64::MIN);
    let max_ms = place.checked_sub(1).and_then(|place| latest_first.get(place).copied());
    (min_ms, max_ms.unwrap_or(i64::MAX))
}

fn latest_first<T: Ord>(times: impl Iterator<Item = T>) -> Vec<T> {
    let mut times: Vec<T> = times.collect();
    times.sort_unstable_by(|a, b| b.cmp(a));
    times
}

#[cfg(test)]
#[path = "peer_clocks_tests.rs"]
mod tests;
