use hdrhistogram::Histogram;

/// An answer that took a larger part of a run than this stands for no more requests than one that took this part, or the last answers of a
/// server that hung would stand for any number.
const PART_MAX: f64 = 0.75;
/// So many standard deviations more may be on their way by chance.
const DEVIATIONS: f64 = 3.0;

/// How many requests may be on their way when a run ends, if the server keeps up and its answers take so long. Of requests that take a
/// time `t`, those that were due in the last `t` of the run are on their way, and the earlier ones were answered: so each of these stands
/// for `t / (elapsed - t)` of the former. With `-B` one time stands for all answers of its batch.
pub(super) fn on_their_way(took: &Histogram<u64>, answered: u64, elapsed_ns: u64) -> u64 {
    let stands_for = |took_ns: u64| {
        let part = (took_ns as f64 / elapsed_ns as f64).min(PART_MAX);
        part / (1.0 - part)
    };
    let counted = took.iter_recorded().map(|value| (value.count_at_value(), value.value_iterated_to()));
    let timed: f64 = counted.map(|(count, took_ns)| count as f64 * stands_for(took_ns)).sum();
    let expected = timed * answered as f64 / took.len().max(1) as f64;
    (expected + DEVIATIONS * (expected + 1.0).sqrt()) as u64
}

/// The requests of an open loop that were due: the one definition of how far a rate was kept, for the terminal, the search for the knee
/// and the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) answered: u64,
    /// They timed out, or their connection broke.
    pub(crate) failed: u64,
    /// Without an answer when the run ended.
    pub(crate) unanswered: u64,
    /// Those of them that are more than may be on their way.
    pub(crate) behind: u64,
}

impl Due {
    /// A run that keeps this part of its rate has reached it.
    const REACHED: f64 = 0.99;

    /// From 0 to 1. What is merely on its way at the end is kept; a run without any answer kept nothing.
    pub(crate) fn kept_share(self) -> f64 {
        if self.answered == 0 {
            return 0.0;
        }
        let on_their_way = self.unanswered.saturating_sub(self.behind);
        let all = self.answered + self.failed + self.unanswered;
        (self.answered + on_their_way) as f64 / all as f64
    }

    pub(crate) fn is_reached(kept_share: f64) -> bool {
        kept_share >= Self::REACHED
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;
    use crate::stats::{Class, RunOutcome};

    const MS: u64 = 1_000_000;

    /// Runs of two seconds at a thousand requests a second, whose answers took so many milliseconds, and which left so many without one.
    fn kept_share(took_ms: impl Iterator<Item = u64>, unanswered: u64) -> f64 {
        let mut outcome = RunOutcome::new(Some(1_000.0));
        (outcome.elapsed_ns, outcome.unanswered) = (2_000 * MS, unanswered);
        for ms in took_ms {
            outcome.complete += 1;
            outcome.latencies.at(Class::Success, Method::Get).uncorrected.record(ms * MS).unwrap();
        }
        outcome.due().kept_share()
    }

    /// Whatever was in flight when the run was cut counted as not answered, so a slow server kept no rate.
    #[test]
    fn what_is_on_its_way_is_kept_however_long_answers_take() {
        for ms in [1, 100, 300, 1_400] {
            assert!(kept_share((0..2_000 - ms).map(|_| ms), ms) >= 1.0, "{ms} ms");
        }
        // One in ten takes a second.
        let answered = (0..1_900).map(|number| if number < 100 { 1_000 } else { 1 });
        assert!(kept_share(answered, 101) >= 1.0);
    }

    #[test]
    fn what_a_server_falls_behind_with_is_not_kept() {
        // Half of the rate: 64 connections wait in turn, or everything that is due waits in the server.
        assert!(kept_share((0..1_000).map(|_| 128), 1_000) < 0.6);
        assert!(kept_share(0..1_000, 1_000) < 0.8);
        // Its first answer came when the run ended.
        assert!(kept_share(std::iter::once(1_999), 1_999) < 0.1);
        // Nine tenths of it.
        assert!(kept_share((0..1_800).map(|_| 35), 200) < 0.95);
        assert!(kept_share(std::iter::empty(), 2_000) <= 0.0);
    }

    #[test]
    fn what_broke_or_timed_out_is_not_kept() {
        let due = Due { answered: 200, failed: 800, unanswered: 0, behind: 0 };
        assert!((due.kept_share() - 0.2).abs() < 1e-9);
    }
}
