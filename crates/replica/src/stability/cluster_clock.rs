use std::sync::Arc;

use ladoga_cluster::{ClockReading, ExpiryTime, NodeId};
use ladoga_env::Clock;
use ladoga_model::{ClockError, HybridClock};

use super::cluster_time::ClusterTime;
use ladoga_local::VersionClock;

/// How long after its expiry a value keeps its bytes: as far as clocks may be apart, and longer than any request lives.
const EXPIRY_MARGIN_MS: u64 = 60_000;

/// How far the wall clock may be behind the versions that a node gives out before it has heard what time it is: what its reservation
/// and clocks that are right come to, several times over.
const BEHIND_MS_MAX: u64 = 60_000;

/// The hybrid clock of a node of a cluster: it goes by what time it is by a majority of the nodes.
pub(crate) struct ClusterClock {
    versions: VersionClock,
    time: ClusterTime,
}

impl ClusterClock {
    /// The clock of one of so many nodes.
    pub(crate) fn new(clock: Arc<dyn Clock>, own: NodeId, nodes: usize, ahead_ms_max: u64) -> ClusterClock {
        let versions = VersionClock::new(clock);
        let time = ClusterTime::new(own, nodes, ahead_ms_max, versions.monotonic_ms());
        ClusterClock { versions, time }
    }

    /// Gives only timestamps after `timestamp`, which was given or observed before this process began.
    pub(crate) fn starts_after(&self, timestamp: u64) {
        self.versions.continue_after(timestamp);
        self.time.starts_after(timestamp, self.monotonic_ms());
    }

    /// Whether a timestamp is after every one that was given or observed.
    pub(crate) fn is_after_all(&self, timestamp: u64) -> bool {
        self.versions.is_after_all(timestamp)
    }

    /// The last timestamp that was given or observed.
    pub(crate) fn last(&self) -> u64 {
        self.versions.last()
    }

    /// Moves on to a timestamp, unless it is too far ahead of the time.
    pub(crate) fn observe(&self, timestamp: u64) -> Result<(), ClockError> {
        self.time.check_ahead(timestamp, self.wall_ms(), self.monotonic_ms())?;
        self.versions.continue_after(timestamp);
        Ok(())
    }

    /// The next timestamp.
    pub(crate) fn next(&self) -> u64 {
        self.versions.next_at(self.time_ms())
    }

    /// The next timestamp, for a write that other nodes have to take; fails if it is too far ahead for a majority.
    pub(crate) fn next_for_all(&self) -> Result<u64, ClockError> {
        let (wall_ms, monotonic_ms) = (self.wall_ms(), self.monotonic_ms());
        let timestamp = self.versions.next_at(self.time.time_ms(wall_ms, monotonic_ms));
        self.time.check_ahead(timestamp, wall_ms, monotonic_ms).map(|()| timestamp)
    }

    /// Whether the wall clock is so far behind a timestamp that was to be given out that it has been set back, while too few peers are
    /// heard to know better. Timestamps then go on from the newest one in the data directory; and if that is an older state of itself,
    /// they may have been given out before, to other writes. With the right time they go on from now.
    pub(crate) fn is_far_behind(&self, timestamp: u64) -> bool {
        self.is_unverified() && HybridClock::wall_ms(timestamp) > self.wall_ms() + BEHIND_MS_MAX
    }

    /// Whether too few peers were heard to know the time of a majority.
    pub(crate) fn is_unverified(&self) -> bool {
        self.time.is_unverified()
    }

    /// Up to which millisecond this node has given all timestamps that it will ever give. After a start that is ahead of the time.
    pub(crate) fn given_up_to_ms(&self) -> u64 {
        self.versions.given_up_to_ms(self.time_ms())
    }

    /// What time it is: the wall clock, as far as a majority of the nodes agrees with it.
    pub(crate) fn time_ms(&self) -> u64 {
        self.time.time_ms(self.wall_ms(), self.monotonic_ms())
    }

    /// What time it is for values that expire. The same, but what had expired does not come back: a wall clock that is set back
    /// counts no further back than it was, also while too few are heard to know better. And a node that has just started
    /// and has not heard what time it is goes by its wall clock, if that is later: the newest version that it has may be of
    /// yesterday.
    pub(crate) fn expiry_time_ms(&self) -> u64 {
        let wall_ms = self.wall_ms();
        let time_ms = self.time.expiry_time_ms(wall_ms, self.monotonic_ms());
        if self.is_unverified() { time_ms.max(wall_ms) } else { time_ms }
    }

    /// The same, with how late it can be: a node that has just started, and hears a bare majority whose clocks are far apart, does not
    /// know which of them is right. None while it has not heard a majority.
    pub(crate) fn expiry_time(&self) -> Option<ExpiryTime> {
        (!self.is_unverified()).then(|| self.time.expiry_time(self.wall_ms(), self.monotonic_ms()))
    }

    /// Values that expired before this have expired by the clocks of all nodes, however far a minority of them is off; none
    /// while that is unknown.
    pub(crate) fn expired_before_ms(&self) -> Option<u64> {
        (!self.is_unverified()).then(|| self.time_ms().saturating_sub(EXPIRY_MARGIN_MS))
    }

    /// The uncorrected wall clock, which is reported to peers.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.versions.wall_ms()
    }

    /// The time at which a peer is asked for its clocks.
    pub(crate) fn monotonic_ms(&self) -> u64 {
        self.versions.monotonic_ms()
    }

    /// A peer's report of its clocks, in the answer to a question of this moment; none if there was no question. Answers the
    /// timestamp of its version clock, as far as it is not too far ahead, and otherwise why not.
    pub(crate) fn heard(
        &self,
        peer: NodeId,
        reading: ClockReading,
        asked_at_ms: Option<u64>,
    ) -> (u64, Result<(), ClockError>) {
        let (wall_ms, monotonic_ms) = (self.wall_ms(), self.monotonic_ms());
        let round_trip_ms = asked_at_ms.map(|asked_at_ms| monotonic_ms.saturating_sub(asked_at_ms));
        self.time.heard(peer, reading, monotonic_ms, round_trip_ms);
        let checked = self.time.check_ahead(reading.version_clock, wall_ms, monotonic_ms);
        if checked.is_ok() {
            self.versions.continue_after(reading.version_clock);
        }
        (self.time.cut(reading.version_clock, wall_ms, monotonic_ms), checked)
    }

    /// Checks the wall clock from time to time, and logs when it begins and ends to be far off the majority's.
    pub(crate) fn look(&self) {
        self.time.look(self.wall_ms(), self.monotonic_ms());
    }

    /// By how much the wall clock is ahead of the time that counts; negative if it is behind. None if that is unknown.
    pub(crate) fn correction_ms(&self) -> Option<i64> {
        self.time.correction_ms(self.wall_ms(), self.monotonic_ms())
    }

    /// The wall clock of a peer minus that of this node, if the peer ever reported it.
    pub(crate) fn offset_ms(&self, peer: NodeId) -> Option<i64> {
        self.time.offset_ms(peer, self.wall_ms(), self.monotonic_ms())
    }
}

#[cfg(test)]
mod tests {
    use ladoga_env::sim::SimClock;

    use super::*;

    fn of_three() -> (SimClock, ClusterClock) {
        let clock = SimClock::new();
        (clock.clone(), ClusterClock::new(Arc::new(clock), NodeId(0), 3, 100))
    }

    fn says(versions: &ClusterClock, peer: u16, wall_ms: u64) {
        let reading = ClockReading { wall_ms, version_clock: HybridClock::at_wall_ms(wall_ms) };
        let _ = versions.heard(NodeId(peer), reading, Some(versions.monotonic_ms()));
    }

    #[test]
    fn follows_others_but_not_too_far() {
        let (clock, versions) = of_three();
        let now_ms = clock.wall_ms();
        says(&versions, 1, now_ms);
        assert!(versions.observe(HybridClock::at_wall_ms(now_ms + 101)).is_err());
        versions.observe(HybridClock::at_wall_ms(now_ms + 100)).expect("inside the bound");
        assert!(!versions.is_after_all(HybridClock::at_wall_ms(now_ms + 100)));
        assert!(versions.is_after_all(HybridClock::at_wall_ms(now_ms + 100) + 1));
        assert_eq!(versions.next(), HybridClock::at_wall_ms(now_ms + 100) + 1);
    }

    #[test]
    fn what_was_given_is_over_also_where_it_is_ahead_of_the_time() {
        let (clock, versions) = of_three();
        let now_ms = clock.wall_ms();
        says(&versions, 1, now_ms);
        clock.advance(std::time::Duration::from_millis(20));
        assert_eq!(versions.given_up_to_ms(), versions.time_ms() - 1);
        versions.observe(HybridClock::at_wall_ms(now_ms + 100)).expect("inside the bound");
        assert_eq!(HybridClock::wall_ms(versions.next()), now_ms + 100);
        assert_eq!(versions.given_up_to_ms(), now_ms + 100, "the last one as well");
        assert_eq!(HybridClock::wall_ms(versions.next()), now_ms + 101);
    }

    #[test]
    fn a_wall_clock_that_jumps_ahead_gives_the_time_of_the_majority() {
        let (clock, versions) = of_three();
        let now_ms = clock.wall_ms();
        says(&versions, 1, now_ms);
        says(&versions, 2, now_ms - 7);
        clock.jump_wall_ms(86_400_000);
        clock.advance(std::time::Duration::from_millis(20));
        // A bound of 100 ms has a margin of 50.
        assert_eq!(HybridClock::wall_ms(versions.next_for_all().expect("it is taken")), now_ms + 20 + 50);
        assert_eq!(versions.correction_ms(), Some(86_400_000 - 50));
        assert_eq!(versions.offset_ms(NodeId(1)), Some(-86_400_000));
    }

    #[test]
    fn what_has_expired_is_known_by_the_time_of_the_majority_and_lost_long_after() {
        let (clock, versions) = of_three();
        // It was down since yesterday, and no peer has reported yet.
        let now_ms = clock.wall_ms();
        versions.starts_after(HybridClock::at_wall_ms(now_ms - 86_400_000));
        assert_eq!((versions.expiry_time_ms(), versions.expired_before_ms()), (now_ms, None));
        clock.jump_wall_ms(30_000);
        says(&versions, 1, now_ms);
        says(&versions, 2, now_ms);
        assert!(versions.expiry_time_ms() - now_ms <= 2, "as far as the clocks of the others can be read");
        // Versions have a margin: of a bound of 100 ms, 50.
        assert_eq!(versions.expired_before_ms(), Some(now_ms + 50 - EXPIRY_MARGIN_MS));
        clock.jump_wall_ms(-60_000);
        assert_eq!(versions.expiry_time_ms(), now_ms);
    }

    /// It did: a node that heard one of two went by its own clock, or by the other one, if that was behind.
    #[test]
    fn a_clock_that_is_set_back_brings_nothing_back_while_a_bare_majority_is_heard() {
        let (clock, versions) = of_three();
        let now_ms = clock.wall_ms();
        says(&versions, 1, now_ms);
        says(&versions, 2, now_ms);
        versions.look();
        clock.jump_wall_ms(-86_400_000);
        clock.advance(std::time::Duration::from_secs(20));
        says(&versions, 1, now_ms + 20_000);
        versions.look();
        assert_eq!(versions.expiry_time_ms(), now_ms + 20_000);
        // And if the other one is behind.
        clock.jump_wall_ms(86_400_000);
        says(&versions, 1, now_ms - 86_400_000);
        versions.look();
        assert_eq!(versions.expiry_time_ms(), now_ms + 20_000);
        // Once all say that it is earlier, it is.
        clock.jump_wall_ms(-600_000);
        says(&versions, 1, now_ms + 20_000 - 600_000);
        says(&versions, 2, now_ms + 20_000 - 600_000);
        versions.look();
        assert_eq!(versions.expiry_time_ms(), now_ms + 20_000 - 600_000);

        // The same in a process that has just started, by what was here before.
        let (clock, versions) = of_three();
        let now_ms = clock.wall_ms();
        versions.starts_after(HybridClock::at_wall_ms(now_ms - 3_000));
        clock.jump_wall_ms(-86_400_000);
        says(&versions, 1, now_ms);
        assert_eq!(versions.expiry_time_ms(), now_ms - 3_000 - 10_000);
        // Which may be of a clock that was wrong: as far as the other one has versions of then, too.
        versions.starts_after(HybridClock::at_wall_ms(now_ms + 86_400_000));
        assert_eq!(versions.expiry_time_ms(), now_ms);
    }

    #[test]
    fn a_clock_that_was_set_back_gives_no_versions_before_others_are_heard() {
        let (clock, versions) = of_three();
        let now_ms = clock.wall_ms();
        versions.starts_after(HybridClock::at_wall_ms(now_ms));
        assert!(!versions.is_far_behind(versions.next()));
        clock.jump_wall_ms(-86_400_000);
        assert!(versions.is_far_behind(versions.next()));
        says(&versions, 1, now_ms);
        says(&versions, 2, now_ms);
        assert!(!versions.is_far_behind(versions.next()));
    }

    #[test]
    fn what_a_peer_says_is_cut_to_what_is_taken() {
        let (clock, versions) = of_three();
        let now_ms = clock.wall_ms();
        says(&versions, 1, now_ms);
        let far = ClockReading { wall_ms: now_ms, version_clock: HybridClock::at_wall_ms(now_ms + 5_000) };
        let (clock_of_2, error) = versions.heard(NodeId(2), far, None);
        assert_eq!(clock_of_2, HybridClock::at_wall_ms(now_ms + 101) - 1);
        assert_eq!(error.expect_err("too far").ahead_ms, 5_000);
    }

    #[test]
    fn a_node_whose_versions_are_too_far_ahead_for_a_majority_gives_none_for_all() {
        let (clock, versions) = of_three();
        versions.starts_after(HybridClock::at_wall_ms(clock.wall_ms() + 5_000));
        versions.next_for_all().expect("nobody has said yet that it is too far");
        says(&versions, 1, clock.wall_ms());
        assert_eq!(versions.next_for_all().expect_err("too far").ahead_ms_max, 100);
        // Without peers, its own time goes on.
        assert!(versions.next() > HybridClock::at_wall_ms(clock.wall_ms() + 5_000));
    }
}
