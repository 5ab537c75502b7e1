use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets below this many microseconds have one microsecond each; above, there are half as many for each power of two, so a bucket is at
/// most an eighth as wide as what is in it.
const EXACT: u64 = 16;
const EXACT_BITS: u32 = EXACT.ilog2();
/// The last bucket begins above an hour.
const BUCKETS: usize = (EXACT + (32 - EXACT_BITS as u64) * EXACT / 2) as usize;

/// How long something took, of all event loops together, to an eighth.
#[derive(Debug)]
pub(crate) struct Latency {
    buckets: [AtomicU64; BUCKETS],
}

impl Default for Latency {
    fn default() -> Latency {
        Latency { buckets: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

impl Latency {
    pub(crate) fn record(&self, us: u64) {
        self.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
    }

    /// The microseconds that this part of them did not exceed; none if there were none.
    pub(crate) fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
        let mut so_far = 0;
        let index = counts.iter().position(|count| {
            so_far += count;
            so_far >= rank
        })?;
        Some(last_of(index))
    }
}

fn bucket(us: u64) -> usize {
    if us < EXACT {
        return us as usize;
    }
    let shift = us.ilog2() - EXACT_BITS + 1;
    let index = u64::from(shift) * EXACT / 2 + (us >> shift);
    (index as usize).min(BUCKETS - 1)
}

/// The largest number in a bucket.
fn last_of(index: usize) -> u64 {
    let index = index as u64;
    if index < EXACT {
        return index;
    }
    let shift = (index - EXACT / 2) / (EXACT / 2);
    let first = (index - shift * EXACT / 2) << shift;
    first + (1 << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_the_bucket_that_ends_next_above_it() {
        for us in (0..5_000).chain([1 << 20, (1 << 20) + 1, (1 << 31) - 1]) {
            let index = bucket(us);
            let last = last_of(index);
            assert!(last >= us && last - us <= us / 8, "{us} in {index} up to {last}");
            assert!(index == 0 || last_of(index - 1) < us, "{us} in {index}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_of_what_was_recorded() {
        let latency = Latency::default();
        assert_eq!(latency.quantile_us(0.5), None);
        (1..=100).for_each(|us| latency.record(us));
        assert_eq!(latency.quantile_us(0.0), Some(1));
        assert_eq!(latency.quantile_us(0.1), Some(10));
        assert_eq!(latency.quantile_us(0.5), Some(51));
        assert_eq!(latency.quantile_us(1.0), Some(103));
    }
}
