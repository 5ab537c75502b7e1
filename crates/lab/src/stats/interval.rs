use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::latencies::{add, ns_histogram};

/// How long an interval of the time series is.
pub(crate) const INTERVAL_NS: u64 = 1_000_000_000;

/// What one thread saw in one interval. Threads hand them over whole and get empty ones back, so that nothing is
/// merged or cleared on the thread that keeps the schedule.
#[derive(Debug)]
pub(crate) struct Interval {
    /// Its number from the start of the run.
    pub(crate) number: u64,
    pub(crate) latencies: Histogram<u64>,
    pub(crate) errors: u64,
}

impl Interval {
    pub(crate) fn new() -> Self {
        Self { number: 0, latencies: ns_histogram(), errors: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.latencies.reset();
        self.errors = 0;
    }
}

/// One interval of all threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Second {
    pub(crate) number: u64,
    pub(crate) completed: u64,
    pub(crate) errors: u64,
    /// In nanoseconds; none where nothing completed.
    pub(crate) percentiles_ns: Option<[u64; 4]>,
}

impl Second {
    /// Of [`Second::percentiles_ns`].
    pub(crate) const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 100.0];
}

/// Puts the intervals of the threads together.
#[derive(Debug)]
pub(crate) struct Seconds {
    threads: usize,
    /// Intervals that not every thread has delivered yet.
    open: BTreeMap<u64, (usize, Interval)>,
}

impl Seconds {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, open: BTreeMap::new() }
    }

    /// Adds a thread's interval; the whole one where this was the last thread that it waited for.
    pub(crate) fn add(&mut self, interval: &Interval) -> Option<(Second, Histogram<u64>)> {
        let (delivered, merged) = self.open.entry(interval.number).or_insert_with(|| (0, Interval::new()));
        *delivered += 1;
        merged.number = interval.number;
        merged.errors += interval.errors;
        add(&mut merged.latencies, &interval.latencies);
        if *delivered < self.threads {
            return None;
        }
        self.open.remove(&interval.number).map(|(_, merged)| close(merged))
    }

    /// What some thread never delivered, because it stopped early.
    pub(crate) fn finish(self) -> Vec<(Second, Histogram<u64>)> {
        self.open.into_values().map(|(_, merged)| close(merged)).collect()
    }
}

fn close(interval: Interval) -> (Second, Histogram<u64>) {
    let latencies = interval.latencies;
    let percentiles =
        (!latencies.is_empty()).then(|| Second::PERCENTILES.map(|p| latencies.value_at_percentile(p)));
    let second = Second {
        number: interval.number,
        completed: latencies.len(),
        errors: interval.errors,
        percentiles_ns: percentiles,
    };
    (second, latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_whole_when_every_thread_delivered_it() {
        let mut seconds = Seconds::new(2);
        let mut interval = Interval::new();
        interval.latencies.record(1000).unwrap();
        interval.errors = 1;
        assert!(seconds.add(&interval).is_none());
        let (second, _) = seconds.add(&interval).unwrap();
        assert_eq!((second.completed, second.errors), (2, 2));
        interval.clear();
        interval.number = 1;
        assert!(seconds.add(&interval).is_none());
        let rest = seconds.finish();
        assert_eq!(rest[0].0, Second { number: 1, completed: 0, errors: 0, percentiles_ns: None });
    }
}
