use std::fmt;

/// Bits of a timestamp that count writes within one millisecond.
const COUNTER_BITS: u32 = 16;

/// A timestamp that is further ahead of this machine's clock than the bound allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClockError {
    /// How far ahead it is.
    pub ahead_ms: u64,
    /// How far ahead it may be.
    pub ahead_ms_max: u64,
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the timestamp is {} ms ahead, expected at most {} ms", self.ahead_ms, self.ahead_ms_max)
    }
}

impl std::error::Error for ClockError {}

/// A hybrid logical clock: follows the wall clock, never repeats, never goes back.
///
/// Source: Kulkarni et al., "Logical Physical Clocks and Consistent Snapshots in Globally Distributed
/// Databases", 2014; the counter sits in the low bits, so a timestamp is one comparable integer.
#[derive(Debug, Clone, Copy, Default)]
pub struct HybridClock {
    last: u64,
}

impl HybridClock {
    /// No clock gives a later timestamp before the year 6429, and no node takes one that is far ahead of its clock: a greater one, in a
    /// file, is none of ours, and leaves no room for the ones to come.
    pub const TIMESTAMP_MAX: u64 = 1 << 63;

    /// A clock that gives only timestamps after `last`.
    pub const fn after(last: u64) -> HybridClock {
        HybridClock { last }
    }

    /// The next timestamp: after every one given or observed so far.
    pub const fn next(&mut self, wall_ms: u64) -> u64 {
        self.last = Self::following(self.last, wall_ms);
        self.last
    }

    /// The timestamp that follows `last` when the wall clock shows `wall_ms`; for callers that keep `last`
    /// in an atomic.
    pub const fn following(last: u64, wall_ms: u64) -> u64 {
        let wall = wall_ms << COUNTER_BITS;
        if wall > last { wall } else { last + 1 }
    }

    /// The first timestamp of a millisecond since 1970.
    pub const fn at_wall_ms(wall_ms: u64) -> u64 {
        wall_ms << COUNTER_BITS
    }

    /// Milliseconds since 1970 of a timestamp.
    pub const fn wall_ms(timestamp: u64) -> u64 {
        timestamp >> COUNTER_BITS
    }

    /// Whether a timestamp of another node is near enough to be taken over; for callers that keep `last` in an atomic.
    pub const fn check_ahead(timestamp: u64, wall_ms: u64, ahead_ms_max: u64) -> Result<(), ClockError> {
        let ahead_ms = Self::wall_ms(timestamp).saturating_sub(wall_ms);
        if ahead_ms > ahead_ms_max { Err(ClockError { ahead_ms, ahead_ms_max }) } else { Ok(()) }
    }

    /// Moves on to another node's timestamp, unless it is further ahead than `ahead_ms_max`.
    pub const fn observe(
        &mut self,
        timestamp: u64,
        wall_ms: u64,
        ahead_ms_max: u64,
    ) -> Result<(), ClockError> {
        if let Err(error) = Self::check_ahead(timestamp, wall_ms, ahead_ms_max) {
            return Err(error);
        }
        if timestamp > self.last {
            self.last = timestamp;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_goes_back_even_if_the_wall_clock_does() {
        let mut clock = HybridClock::default();
        let mut last = 0;
        for wall_ms in [10, 10, 11, 5, 5, 12, 0] {
            let now = clock.next(wall_ms);
            assert!(now > last);
            last = now;
        }
        assert_eq!(HybridClock::wall_ms(last), 12);
    }

    #[test]
    fn one_broken_clock_cannot_poison_ours() {
        let mut clock = HybridClock::default();
        assert!(clock.observe(2_000 << COUNTER_BITS, 1_000, 500).is_err());
        assert_eq!(clock.next(1_000), 1_000 << COUNTER_BITS);
        clock.observe(1_400 << COUNTER_BITS, 1_000, 500).expect("inside the bound");
        assert_eq!(clock.next(1_000), (1_400 << COUNTER_BITS) + 1);
    }
}
