use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::engine::Watcher;
use crate::stats::{INTERVAL_NS, Second};

/// Buckets of latency: so many for each factor of ten, from one microsecond on.
const BUCKETS_A_DECADE: f64 = 8.0;
const BUCKETS: usize = 64;
/// A longer run has wider columns instead of more of them.
const COLUMNS_MAX: usize = 200;

/// How many requests took how long, over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heat {
    pub(crate) column_ms: u64,
    /// By column: the buckets that are not empty, with their counts.
    pub(crate) columns: Vec<Vec<(u8, u64)>>,
}

/// The lower end of a bucket.
pub(crate) fn bucket_low_us(bucket: usize) -> f64 {
    10_f64.powf(bucket as f64 / BUCKETS_A_DECADE)
}

fn bucket_of(ns: u64) -> usize {
    let micros = (ns as f64 / 1000.0).max(1.0);
    ((micros.log10() * BUCKETS_A_DECADE) as usize).min(BUCKETS - 1)
}

/// Collects the intervals of a run.
#[derive(Debug, Default)]
pub(crate) struct HeatRecorder {
    /// By interval.
    intervals: Vec<[u64; BUCKETS]>,
}

impl HeatRecorder {
    pub(crate) fn heat(&self) -> Heat {
        let merged = self.intervals.len().div_ceil(COLUMNS_MAX).max(1);
        let column = |intervals: &[[u64; BUCKETS]]| {
            let count = |bucket: usize| intervals.iter().map(|counts| counts[bucket]).sum::<u64>();
            (0..BUCKETS).map(|bucket| (bucket as u8, count(bucket))).filter(|(_, count)| *count > 0).collect()
        };
        Heat {
            column_ms: merged as u64 * INTERVAL_NS / 1_000_000,
            columns: self.intervals.chunks(merged).map(column).collect(),
        }
    }
}

impl Watcher for HeatRecorder {
    fn second(&mut self, _second: &Second, _latencies: &Histogram<u64>) {}

    fn interval(&mut self, number: u64, latencies: &Histogram<u64>) {
        let mut counts = [0; BUCKETS];
        for value in latencies.iter_recorded() {
            counts[bucket_of(value.value_iterated_to())] += value.count_at_value();
        }
        // The rest of an interval that was not over when the run ended may be empty.
        if latencies.is_empty() && number as usize >= self.intervals.len() {
            return;
        }
        let index = number as usize;
        self.intervals.resize(self.intervals.len().max(index + 1), [0; BUCKETS]);
        self.intervals[index] = counts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ns_histogram;

    #[test]
    fn requests_are_in_their_columns_and_buckets() {
        let mut recorder = HeatRecorder::default();
        let mut latencies = ns_histogram();
        latencies.record_n(100_000, 3).unwrap();
        recorder.interval(0, &latencies);
        latencies.reset();
        latencies.record(2_000_000_000).unwrap();
        recorder.interval(2, &latencies);
        recorder.interval(3, &ns_histogram());
        let heat = recorder.heat();
        assert_eq!(heat.column_ms, 100);
        assert_eq!(heat.columns, [vec![(16, 3)], vec![], vec![(50, 1)]]);
        assert!((bucket_low_us(16) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn a_long_run_has_wider_columns() {
        let mut recorder = HeatRecorder::default();
        let mut latencies = ns_histogram();
        latencies.record(5_000).unwrap();
        (0..1001).for_each(|number| recorder.interval(number, &latencies));
        let heat = recorder.heat();
        assert_eq!((heat.column_ms, heat.columns.len()), (600, 167));
        assert_eq!(heat.columns.iter().flatten().map(|(_, count)| count).sum::<u64>(), 1001);
    }
}
