use super::Metrics;
use super::histogram::HistogramSum;

/// The share of the requests that are not slower than the tail, in a hundred.
const TAIL_PERCENT: u64 = 99;

/// The tail of the requests since a moment.
#[derive(Debug, Default)]
pub struct Tail {
    /// All requests before that moment.
    before: HistogramSum,
    /// As of the last look.
    now: HistogramSum,
}

impl Tail {
    /// How many requests of clients, of this node and of others, succeeded since the moment, and how long the slowest in a
    /// hundred took, in microseconds.
    pub fn look(&mut self, metrics: &Metrics) -> (u64, u64) {
        self.now = HistogramSum::default();
        for metrics in &metrics.loops {
            metrics.add_foreground(&mut self.now);
        }
        let since = self.now.since(&self.before);
        (since.count(), since.quantile_ns(TAIL_PERCENT) / 1000)
    }

    /// Counts anew from the last look on.
    pub fn begin_anew(&mut self) {
        self.before = self.now.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Operation;

    #[test]
    fn only_what_came_since_the_moment_and_succeeded_counts() {
        let metrics = Metrics::new(2);
        let answered = |of: usize, route, status, duration_us: u64| {
            metrics.loops[of].answered(Some(route), status, duration_us * 1000);
        };
        let mut tail = Tail::default();
        for _ in 0..1000 {
            answered(0, Operation::Get, 200, 90_000);
        }
        assert_eq!(tail.look(&metrics).0, 1000);
        tail.begin_anew();
        assert_eq!(tail.look(&metrics), (0, 0));
        for _ in 0..98 {
            answered(1, Operation::Put, 201, 100);
        }
        for _ in 0..2 {
            answered(0, Operation::Get, 404, 5000);
            answered(0, Operation::Get, 503, 10);
            answered(0, Operation::Range, 200, 900_000);
        }
        let (requests, tail_us) = tail.look(&metrics);
        assert_eq!(requests, 100);
        // Within its bucket, from 4,194 to 8,388 microseconds.
        assert!((4194..=8389).contains(&tail_us), "{tail_us}");
    }
}
