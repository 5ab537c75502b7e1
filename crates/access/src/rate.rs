/// How much may be used at once after a pause: what a second brings.
const WINDOW_NS: u64 = 1_000_000_000;
/// What was used beyond the rate is not held against anybody for longer than this.
const DEBT_NS_MAX: u64 = 3_600_000_000_000;
/// The highest rates that can be set.
pub const REQUESTS_PER_SECOND_MAX: u64 = 1_000_000_000;
/// The same of bytes.
pub const BYTES_PER_SECOND_MAX: u64 = 1_000_000_000_000;

/// So much a second, as a token bucket that holds what one second brings.
///
/// Its whole state is one number, the time at which the bucket is full again: many threads can keep it in one atomic, and a bucket that
/// nobody uses costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// At least 1.
    per_second: u64,
}

impl Rate {
    /// So much a second, if that is anything.
    pub fn per_second(per_second: u64) -> Option<Rate> {
        (per_second > 0).then_some(Rate { per_second })
    }

    /// How much that is a second.
    pub const fn get(self) -> u64 {
        self.per_second
    }

    /// Takes `cost` at `now_ns` from a bucket that is full again at `full_ns`; answers when it is full again after that. There has to be
    /// something in it; what costs more leaves it in debt, or who makes small requests all the time could never make a large one. The
    /// error is how long to wait.
    pub fn take(self, full_ns: u64, now_ns: u64, cost: u64) -> Result<u64, u64> {
        let needed_ns = full_ns.max(now_ns).saturating_add(self.cost_ns(cost.min(1)));
        let permitted_ns = now_ns.saturating_add(WINDOW_NS);
        if needed_ns > permitted_ns {
            return Err(needed_ns - permitted_ns);
        }
        Ok(self.charge(full_ns, now_ns, cost))
    }

    /// The same of what has happened already, which nobody can refuse any more.
    pub fn charge(self, full_ns: u64, now_ns: u64, cost: u64) -> u64 {
        let full_ns = full_ns.max(now_ns).saturating_add(self.cost_ns(cost));
        full_ns.min(now_ns.saturating_add(DEBT_NS_MAX))
    }

    fn cost_ns(self, cost: u64) -> u64 {
        let cost_ns = u128::from(cost) * u128::from(WINDOW_NS) / u128::from(self.per_second);
        u64::try_from(cost_ns).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = WINDOW_NS;

    fn rate(per_second: u64) -> Rate {
        Rate::per_second(per_second).expect("a rate")
    }

    /// How many are admitted one after the other at one time.
    fn burst(rate: Rate, full_ns: &mut u64, now_ns: u64) -> u64 {
        let mut count = 0;
        while let Ok(full) = rate.take(*full_ns, now_ns, 1) {
            (*full_ns, count) = (full, count + 1);
        }
        count
    }

    #[test]
    fn a_second_brings_as_much_as_the_rate_says() {
        for per_second in [1, 2, 10, 1_000] {
            let (rate, mut full_ns) = (rate(per_second), 0);
            assert_eq!(burst(rate, &mut full_ns, 5 * SECOND), per_second, "the bucket was full");
            assert_eq!(burst(rate, &mut full_ns, 6 * SECOND), per_second);
            assert_eq!(burst(rate, &mut full_ns, 6 * SECOND + SECOND / 2), per_second / 2);
            assert_eq!(burst(rate, &mut full_ns, 1_000 * SECOND), per_second, "no more than a second's");
        }
    }

    #[test]
    fn who_waits_as_long_as_told_is_admitted() {
        let (rate, now_ns) = (rate(3), 7 * SECOND);
        let mut full_ns = 0;
        burst(rate, &mut full_ns, now_ns);
        let wait_ns = rate.take(full_ns, now_ns, 1).expect_err("the bucket is empty");
        assert!(wait_ns > 0 && wait_ns <= SECOND / 3 + 1, "{wait_ns}");
        assert!(rate.take(full_ns, now_ns + wait_ns - 1, 1).is_err());
        assert!(rate.take(full_ns, now_ns + wait_ns, 1).is_ok());
    }

    #[test]
    fn what_is_larger_than_what_is_left_passes_once_and_is_paid_for() {
        let (rate, now_ns) = (rate(100), SECOND);
        let full_ns = rate.take(0, now_ns, 99).expect("a full bucket");
        let full_ns = rate.take(full_ns, now_ns, 901).expect("there is something in it");
        assert_eq!(full_ns, now_ns + 10 * SECOND);
        assert_eq!(rate.take(full_ns, now_ns, 0), Err(9 * SECOND), "in debt");
        assert!(rate.take(full_ns, now_ns + 9 * SECOND, 0).is_ok());
        assert_eq!(rate.charge(0, now_ns, u64::MAX), now_ns + DEBT_NS_MAX, "for an hour at most");
        assert!(rate.take(u64::MAX, u64::MAX, u64::MAX).is_ok(), "no number overflows");
        assert_eq!(Rate::per_second(0), None);
    }
}
