//! How long to sleep so as to wake up in time.
//!
//! The system wakes a sleeper late, by an amount that depends on the machine and its load. The pacer learns that amount and
//! sleeps that much less, and the loop polls the sockets for the rest of the time. The cost of that is bounded: at most a part
//! of the time between two requests, and never more than a fixed maximum. So a low rate costs little CPU, and a busy machine is
//! left to the server.

/// The longest time that is spent awake before a request is due.
const SPIN_NS_MAX: u64 = 50_000;
/// The part of the time between two requests that may be spent so.
const SPIN_PART: u64 = 4;
/// One late wake-up raises the margin by as much as twenty punctual ones lower it, so that about one of twenty is late.
const UP_NS: u64 = 2_000;
const DOWN_NS: u64 = 100;

#[derive(Debug)]
pub(crate) struct Pacer {
    margin_ns: u64,
    margin_ns_max: u64,
}

impl Pacer {
    /// For a thread whose requests are `gap_ns` apart.
    pub(crate) fn new(gap_ns: u64) -> Self {
        let margin_ns_max = (gap_ns / SPIN_PART).min(SPIN_NS_MAX);
        Self { margin_ns: margin_ns_max / 2, margin_ns_max }
    }

    /// How long to sleep if something is due in `until_ns`; zero for not at all.
    pub(crate) fn sleep_ns(&self, until_ns: u64) -> u64 {
        until_ns.saturating_sub(self.margin_ns)
    }

    /// Learns from a sleep that nothing but its end ended.
    pub(crate) fn woke_up(&mut self, asked_ns: u64, slept_ns: u64) {
        let late = slept_ns.saturating_sub(asked_ns);
        self.margin_ns = if late > self.margin_ns {
            (self.margin_ns + UP_NS).min(self.margin_ns_max)
        } else {
            self.margin_ns.saturating_sub(DOWN_NS)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_follows_how_late_the_system_is() {
        let mut pacer = Pacer::new(1_000_000);
        for _ in 0..1000 {
            pacer.woke_up(100_000, 112_000);
        }
        let margin = 1_000_000 - pacer.sleep_ns(1_000_000);
        assert!((12_000..15_000).contains(&margin), "{margin}");
        for _ in 0..1000 {
            pacer.woke_up(100_000, 100_000);
        }
        assert_eq!(pacer.sleep_ns(1_000_000), 1_000_000);
    }

    #[test]
    fn time_awake_is_bounded() {
        for gap in [1_000, 50_000, 1_000_000_000] {
            let mut pacer = Pacer::new(gap);
            for _ in 0..1000 {
                pacer.woke_up(0, 10_000_000);
            }
            let margin = 10_000_000_000 - pacer.sleep_ns(10_000_000_000);
            assert!(margin <= SPIN_NS_MAX && margin <= gap / SPIN_PART, "{margin} of {gap}");
        }
        assert_eq!(Pacer::new(1_000_000).sleep_ns(10), 0);
    }
}
