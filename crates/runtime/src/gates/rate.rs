/// A client that makes less than this is stalled: hardly more than what a body must make in any case.
pub(super) const STALLED_BYTES_PER_SECOND: u64 = 24 << 10;
/// The shortest time over which a rate is measured.
const MEASURED_MS_MIN: u64 = 250;

/// How fast the other side makes progress. Only the time in which the node waited for it counts: a slow disk of ours is not its
/// fault.
#[derive(Debug, Clone, Default)]
pub(super) struct Rate {
    /// Since when it is waited for, if it is.
    waits_since_ms: Option<u64>,
    /// For how long it was waited for in all.
    waited_ms: u64,
    moved_bytes: u64,
    window: Window,
    previous: Window,
}

/// A stretch of time in which the other side was waited for.
#[derive(Debug, Clone, Copy, Default)]
struct Window {
    waited_ms: u64,
    bytes: u64,
}

/// How the other side does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It waits for us.
    Served,
    /// The node has not waited for it long enough to judge it; its rate so far.
    Fresh { bytes_per_second: u64 },
    /// What it makes lately.
    Judged { bytes_per_second: u64 },
}

impl Rate {
    /// It is waited for from now on.
    pub(super) fn waits(&mut self, now_ms: u64) {
        self.waits_since_ms.get_or_insert(now_ms);
    }

    /// It is not waited for any more.
    pub(super) fn rests(&mut self, now_ms: u64) {
        self.count_wait(now_ms);
        self.waits_since_ms = None;
    }

    /// The other side sent, or took, so many bytes.
    pub(super) fn moved(&mut self, bytes: u64, now_ms: u64, window_ms: u64) {
        self.count_wait(now_ms);
        if self.window.waited_ms >= window_ms {
            self.previous = std::mem::take(&mut self.window);
        }
        self.window.bytes += bytes;
        self.moved_bytes += bytes;
    }

    fn count_wait(&mut self, now_ms: u64) {
        if let Some(since_ms) = &mut self.waits_since_ms {
            let waited_ms = now_ms.saturating_sub(*since_ms);
            *since_ms = now_ms;
            self.waited_ms += waited_ms;
            self.window.waited_ms += waited_ms;
        }
    }

    /// How it does. One that is stalled from the beginning is judged after `stalled_ms`, the others after `window_ms`.
    pub(super) fn standing(&self, now_ms: u64, window_ms: u64, stalled_ms: u64) -> Standing {
        let Some(since_ms) = self.waits_since_ms else { return Standing::Served };
        let open_ms = now_ms.saturating_sub(since_ms);
        let waited_ms = self.waited_ms + open_ms;
        if waited_ms < window_ms {
            let bytes_per_second = per_second(self.moved_bytes, waited_ms);
            let is_stalled = waited_ms >= stalled_ms && bytes_per_second < STALLED_BYTES_PER_SECOND;
            return if is_stalled {
                Standing::Judged { bytes_per_second }
            } else {
                Standing::Fresh { bytes_per_second }
            };
        }
        if open_ms >= window_ms {
            return Standing::Judged { bytes_per_second: 0 };
        }
        let bytes = self.window.bytes + self.previous.bytes;
        let measured_ms = self.window.waited_ms + self.previous.waited_ms + open_ms;
        Standing::Judged { bytes_per_second: per_second(bytes, measured_ms) }
    }
}

fn per_second(bytes: u64, ms: u64) -> u64 {
    bytes.saturating_mul(1_000) / ms.max(MEASURED_MS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_MS: u64 = 2_000;
    const STALLED_MS: u64 = 500;

    fn judged(bytes_per_second: u64) -> Standing {
        Standing::Judged { bytes_per_second }
    }

    #[test]
    fn who_is_stalled_from_the_beginning_is_judged_sooner() {
        let mut rate = Rate::default();
        let fresh = |bytes_per_second| Standing::Fresh { bytes_per_second };
        assert_eq!(rate.standing(9_000, WINDOW_MS, STALLED_MS), Standing::Served);
        rate.waits(1_000);
        assert_eq!(rate.standing(1_499, WINDOW_MS, STALLED_MS), fresh(0));
        assert_eq!(rate.standing(1_500, WINDOW_MS, STALLED_MS), judged(0));
        rate.moved(1_000, 1_500, WINDOW_MS);
        assert_eq!(rate.standing(1_500, WINDOW_MS, STALLED_MS), judged(2_000));
        assert_eq!(rate.standing(1_500, WINDOW_MS, WINDOW_MS), fresh(2_000));
        rate.moved(99_000, 1_500, WINDOW_MS);
        assert_eq!(rate.standing(2_600, WINDOW_MS, STALLED_MS), fresh(62_500));
        assert_eq!(rate.standing(3_000, WINDOW_MS, STALLED_MS), judged(50_000));
        assert_eq!(rate.standing(3_500, WINDOW_MS, STALLED_MS), judged(0));
    }

    #[test]
    fn our_time_does_not_count() {
        let mut rate = Rate::default();
        rate.waits(0);
        rate.moved(1_000_000, 100, WINDOW_MS);
        rate.rests(100);
        assert_eq!(rate.standing(99_999, WINDOW_MS, STALLED_MS), Standing::Served);
        rate.waits(100_000);
        assert_eq!(
            rate.standing(100_150, WINDOW_MS, STALLED_MS),
            Standing::Fresh { bytes_per_second: 4_000_000 }
        );
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut rate = Rate::default();
        rate.waits(0);
        rate.moved(50_000_000, 10, WINDOW_MS);
        for now_ms in (100..=20_000).step_by(100) {
            rate.moved(1_650, now_ms, WINDOW_MS);
        }
        let Standing::Judged { bytes_per_second } = rate.standing(20_000, WINDOW_MS, STALLED_MS) else {
            panic!("it was waited for long enough");
        };
        assert!((15_000..18_000).contains(&bytes_per_second), "{bytes_per_second}");
    }
}
