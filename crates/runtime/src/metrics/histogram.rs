use std::sync::atomic::{AtomicU64, Ordering};

/// The first bucket takes what is below 2^10 ns (about a microsecond), and each next one twice as much.
const FIRST_BUCKET_BITS: u32 = 10;
/// The last bucket but the open one ends at 2^34 ns (17 s).
pub(super) const BUCKETS: usize = 25;

/// Adds to a figure that only one thread writes: no bus is locked for it.
pub(super) fn add(figure: &AtomicU64, amount: u64) {
    figure.store(figure.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// Durations in buckets of powers of two, written by one thread and read by any.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    /// The last one is open.
    buckets: [AtomicU64; BUCKETS + 1],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts a duration. By the writing thread only.
    pub(super) fn record(&self, duration_ns: u64) {
        add(&self.buckets[bucket(duration_ns)], 1);
        add(&self.sum_ns, duration_ns);
    }
}

const fn bucket(duration_ns: u64) -> usize {
    let bits = u64::BITS - duration_ns.leading_zeros();
    let index = bits.saturating_sub(FIRST_BUCKET_BITS) as usize;
    if index < BUCKETS { index } else { BUCKETS }
}

/// The sum of several histograms.
#[derive(Debug, Clone, Default)]
pub struct HistogramSum {
    buckets: [u64; BUCKETS + 1],
    sum_ns: u64,
}

impl HistogramSum {
    pub(super) fn add(&mut self, histogram: &Histogram) {
        for (sum, bucket) in self.buckets.iter_mut().zip(&histogram.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        self.sum_ns += histogram.sum_ns.load(Ordering::Relaxed);
    }

    /// What came after another sum of the same histograms.
    pub(super) fn since(&self, before: &HistogramSum) -> HistogramSum {
        let mut buckets = self.buckets;
        buckets.iter_mut().zip(&before.buckets).for_each(|(sum, before)| *sum -= before);
        HistogramSum { buckets, sum_ns: self.sum_ns.wrapping_sub(before.sum_ns) }
    }

    /// The duration that so many percent do not exceed, as if the durations in a bucket were spread evenly over it; 0 if there
    /// are none.
    pub(super) fn quantile_ns(&self, percent: u64) -> u64 {
        let rank = (self.count() * percent).div_ceil(100);
        let mut below = 0;
        for (index, &count) in self.buckets.iter().enumerate() {
            if count > 0 && below + count >= rank {
                let start = if index == 0 { 0 } else { 1 << (FIRST_BUCKET_BITS + index as u32 - 1) };
                let end = 1_u64 << (FIRST_BUCKET_BITS + index as u32);
                return start + (end - start) * (rank - below) / count;
            }
            below += count;
        }
        0
    }

    /// How many durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// How long all of them took.
    pub fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// The upper bound of each bucket but the open one in seconds, and how many durations are in it.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bound = |index: usize| (1_u64 << (FIRST_BUCKET_BITS + index as u32)) as f64 / 1e9;
        self.buckets[..BUCKETS].iter().enumerate().map(move |(index, &count)| (bound(index), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_first_bucket_that_ends_after_it() {
        assert_eq!(bucket(0), 0);
        assert_eq!(bucket(1_023), 0);
        assert_eq!(bucket(1_024), 1);
        assert_eq!(bucket(2_047), 1);
        assert_eq!(bucket(2_048), 2);
        assert_eq!(bucket((1 << 34) - 1), BUCKETS - 1);
        assert_eq!(bucket(1 << 34), BUCKETS);
        assert_eq!(bucket(u64::MAX), BUCKETS);
    }

    #[test]
    fn a_quantile_lies_within_the_bucket_that_has_it() {
        let histogram = Histogram::default();
        for _ in 0..98 {
            histogram.record(1_500);
        }
        histogram.record(100_000);
        histogram.record(1 << 40);
        let mut sum = HistogramSum::default();
        sum.add(&histogram);
        assert_eq!(sum.quantile_ns(98), 2_048);
        assert_eq!(sum.quantile_ns(49), 1_536);
        assert_eq!(sum.quantile_ns(99), 1 << 17);
        assert_eq!(sum.quantile_ns(100), 1 << 35, "the open bucket is as wide as the one before");
        assert_eq!(sum.since(&sum).quantile_ns(99), 0);
        assert_eq!(sum.since(&HistogramSum::default()).count(), 100);
    }

    #[test]
    fn sums_add_up() {
        let (first, second) = (Histogram::default(), Histogram::default());
        first.record(500);
        second.record(1_500);
        second.record(u64::MAX >> 1);
        let mut sum = HistogramSum::default();
        sum.add(&first);
        sum.add(&second);
        assert_eq!(sum.count(), 3);
        assert_eq!(sum.buckets().map(|(_, count)| count).sum::<u64>(), 2);
        assert_eq!(sum.buckets().next(), Some((1.024e-6, 1)));
    }
}
