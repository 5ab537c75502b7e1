use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::engine::Watcher;
use crate::stats::{INTERVAL_NS, Second};

/// Buckets of latency: so many for each factor of ten, from one microsecond on, up to a day, as the histograms.
const BUCKETS_A_DECADE: f64 = 8.0;
const BUCKETS: usize = 88;
/// A longer run has wider columns instead of more of them.
const COLUMNS_MAX: usize = 200;
/// The same for the columns that one sees of a part of the run: an hour of tenths of a second, two hours of twice that, and so on.
const FINE_COLUMNS_MAX: usize = 36_000;

/// How many requests took how long, over time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Heat {
    pub(crate) column_ms: u64,
    /// By column: the buckets that are not empty, with their counts.
    pub(crate) columns: Vec<Cells>,
    /// The same in narrower columns; none if the run is so short that there are no narrower ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fine: Option<FineHeat>,
}

/// The buckets of a column that are not empty, with their counts.
pub(crate) type Cells = Vec<(u8, u64)>;

/// What is seen of a part of a long run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FineHeat {
    pub(crate) column_ms: u64,
    pub(crate) columns: Vec<Cells>,
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
#[derive(Debug)]
pub(crate) struct HeatRecorder {
    /// At most [`FINE_COLUMNS_MAX`] of them, which are 25 MB, however long the run is; there is room for up to twice as many.
    counts: Vec<[u64; BUCKETS]>,
    /// How many intervals each of them is the sum of.
    intervals_each: usize,
}

impl Default for HeatRecorder {
    fn default() -> Self {
        Self { counts: Vec::new(), intervals_each: 1 }
    }
}

impl HeatRecorder {
    pub(crate) fn heat(&self) -> Heat {
        let (column_ms, columns) = self.columns(COLUMNS_MAX);
        let (fine_ms, fine) = self.columns(FINE_COLUMNS_MAX);
        let fine = (fine_ms < column_ms).then_some(FineHeat { column_ms: fine_ms, columns: fine });
        Heat { column_ms, columns, fine }
    }

    /// At most so many, and how long one is.
    fn columns(&self, columns_max: usize) -> (u64, Vec<Cells>) {
        let merged = self.counts.len().div_ceil(columns_max).max(1);
        let column = |parts: &[[u64; BUCKETS]]| -> Cells {
            let count = |bucket: usize| parts.iter().map(|counts| counts[bucket]).sum::<u64>();
            (0..BUCKETS).map(|bucket| (bucket as u8, count(bucket))).filter(|(_, count)| *count > 0).collect()
        };
        let column_ms = (merged * self.intervals_each) as u64 * INTERVAL_NS / 1_000_000;
        (column_ms, self.counts.chunks(merged).map(column).collect())
    }

    /// Two and two become one.
    fn merge(&mut self) {
        for at in 0..self.counts.len().div_ceil(2) {
            let mut both = self.counts[2 * at];
            if let Some(second) = self.counts.get(2 * at + 1) {
                both.iter_mut().zip(second).for_each(|(sum, count)| *sum += count);
            }
            self.counts[at] = both;
        }
        self.counts.truncate(self.counts.len().div_ceil(2));
        self.intervals_each *= 2;
    }
}

impl Watcher for HeatRecorder {
    fn second(&mut self, _second: &Second, _latencies: &Histogram<u64>) {}

    fn interval(&mut self, number: u64, latencies: &Histogram<u64>) {
        // The rest of an interval that was not over when the run ended may be empty.
        if latencies.is_empty() {
            return;
        }
        while number as usize / self.intervals_each >= FINE_COLUMNS_MAX {
            self.merge();
        }
        let index = number as usize / self.intervals_each;
        self.counts.resize(self.counts.len().max(index + 1), [0; BUCKETS]);
        for value in latencies.iter_recorded() {
            self.counts[index][bucket_of(value.value_iterated_to())] += value.count_at_value();
        }
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
        assert_eq!((heat.column_ms, &heat.fine), (100, &None));
        assert_eq!(heat.columns, [vec![(16, 3)], vec![], vec![(50, 1)]]);
        assert!((bucket_low_us(16) - 100.0).abs() < 1e-9);
    }

    /// All that took longer than 100 s was in one bucket, and was drawn as 75 to 100 s.
    #[test]
    fn requests_that_waited_for_minutes_and_hours_have_their_buckets() {
        let mut recorder = HeatRecorder::default();
        let mut latencies = ns_histogram();
        let waited_s = [150, 3_600, 86_400];
        waited_s.iter().for_each(|seconds| latencies.record(seconds * 1_000_000_000).unwrap());
        recorder.interval(0, &latencies);
        let columns = recorder.heat().columns;
        assert_eq!(columns[0].len(), waited_s.len(), "{columns:?}");
        for ((bucket, _), seconds) in columns[0].iter().zip(waited_s) {
            let (low, high) = (bucket_low_us((*bucket).into()), bucket_low_us(usize::from(*bucket) + 1));
            assert!((low..high).contains(&(seconds as f64 * 1e6)), "{seconds} s in {low} to {high} us");
        }
    }

    #[test]
    fn a_long_run_has_wider_columns() {
        let mut recorder = HeatRecorder::default();
        let mut latencies = ns_histogram();
        latencies.record(5_000).unwrap();
        (0..1001).for_each(|number| recorder.interval(number, &latencies));
        let heat = recorder.heat();
        assert_eq!((heat.column_ms, heat.columns.len()), (600, 167));
        let sum = |columns: &[Cells]| columns.iter().flatten().map(|(_, count)| count).sum::<u64>();
        let fine = heat.fine.unwrap();
        assert_eq!((fine.column_ms, fine.columns.len()), (100, 1001), "a part of it is seen as it was");
        assert_eq!((sum(&heat.columns), sum(&fine.columns)), (1001, 1001));
    }

    /// A day of them took 608 MB until its end.
    #[test]
    fn a_run_of_hours_takes_no_more_memory() {
        let mut recorder = HeatRecorder::default();
        let mut latencies = ns_histogram();
        latencies.record(5_000).unwrap();
        let fine_after = |recorder: &HeatRecorder| {
            let fine = recorder.heat().fine.unwrap();
            let sum: u64 = fine.columns.iter().flatten().map(|(_, count)| count).sum();
            (fine.column_ms, fine.columns.len(), sum)
        };
        (0..36_000).for_each(|number| recorder.interval(number, &latencies));
        assert_eq!(fine_after(&recorder), (100, 36_000, 36_000), "an hour");
        recorder.interval(36_000, &latencies);
        assert_eq!(fine_after(&recorder), (200, 18_001, 36_001));
        (36_001..100_000).for_each(|number| recorder.interval(number, &latencies));
        assert_eq!(fine_after(&recorder), (400, 25_000, 100_000));
        assert!(recorder.counts.capacity() <= 2 * FINE_COLUMNS_MAX);
    }
}
