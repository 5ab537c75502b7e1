use std::time::Duration;

/// Writers wait no less at a time: a sleep takes 50 µs longer than it should, which is fifty times what a small group owes.
const PAUSE_MIN: Duration = Duration::from_micros(250);

/// The pause that writers owe for what they have written. The time that goes by pays for it: who writes no faster than is allowed
/// never waits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Debt {
    owed: Duration,
    /// When it was that much.
    at_ns: u64,
}

impl Debt {
    /// What is owed now, with so much more.
    pub(super) fn with(self, delay: Duration, now_ns: u64) -> Debt {
        let paid = Duration::from_nanos(now_ns.saturating_sub(self.at_ns));
        Debt { owed: self.owed.saturating_sub(paid) + delay, at_ns: now_ns }
    }

    /// For how long writers are to wait, if that is worth a sleep. Some of it they go on owing: what goes by until their next group
    /// would pay for nothing otherwise.
    pub(super) fn pause(self) -> Option<Duration> {
        let pause = self.owed.saturating_sub(PAUSE_MIN);
        (pause >= PAUSE_MIN).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Duration = Duration::from_micros(100);

    /// How long writers wait for a thousand groups that owe 100 µs each, and come so far apart.
    fn waited(apart: Duration) -> Duration {
        let (mut debt, mut now_ns, mut waited) = (Debt::default(), 1, Duration::ZERO);
        for _ in 0..1000 {
            debt = debt.with(GROUP, now_ns);
            let pause = debt.pause().unwrap_or_default();
            waited += pause;
            now_ns += (pause + apart).as_nanos() as u64;
        }
        waited
    }

    #[test]
    fn who_is_no_faster_than_allowed_never_waits_and_others_are_as_fast_as_allowed() {
        assert_eq!([1, 2, 10].map(|times| waited(GROUP * times)), [Duration::ZERO; 3]);
        for apart in [Duration::ZERO, GROUP / 10, GROUP / 2, GROUP * 9 / 10] {
            let all = waited(apart) + apart * 1000;
            let allowed = GROUP * 1000;
            assert!(all <= allowed && all + PAUSE_MIN * 3 >= allowed, "{apart:?}: {all:?}");
        }
    }

    #[test]
    fn time_before_it_pays_for_nothing() {
        let debt = Debt::default().with(GROUP, 1_000_000_000).with(GROUP, 9_000_000_000);
        assert_eq!(debt.pause(), None);
        assert_eq!(debt.with(GROUP * 3, 9_000_000_000).pause(), None);
        assert_eq!(debt.with(GROUP * 9, 9_000_000_000).pause(), Some(Duration::from_micros(750)));
    }
}
