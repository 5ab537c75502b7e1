use hdrhistogram::Histogram;

/// wrk2's bound too: one day.
const DAY_NS: u64 = 24 * 60 * 60 * 1_000_000_000;
const DIGITS: u8 = 3;

/// A histogram of nanoseconds, three significant digits, up to a day.
pub(crate) fn ns_histogram() -> Histogram<u64> {
    histogram(DAY_NS)
}

fn histogram(max: u64) -> Histogram<u64> {
    match Histogram::new_with_bounds(1, max, DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("constant bounds: {error}"),
    }
}

/// The same latencies in microseconds and in a histogram of wrk2's own shape, for text that is compared with wrk2's.
pub(crate) fn in_micros(latencies: &Histogram<u64>) -> Histogram<u64> {
    let mut micros = histogram(DAY_NS / 1000);
    for value in latencies.iter_recorded() {
        micros.saturating_record_n((value.value_iterated_to() + 500) / 1000, value.count_at_value());
    }
    micros
}

/// Latencies counted from the schedule, beside those counted from the moment of sending.
#[derive(Debug, Clone)]
pub(crate) struct Latencies {
    pub(crate) corrected: Histogram<u64>,
    pub(crate) uncorrected: Histogram<u64>,
}

impl Latencies {
    pub(crate) fn new() -> Self {
        Self { corrected: ns_histogram(), uncorrected: ns_histogram() }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        add(&mut self.corrected, &other.corrected);
        add(&mut self.uncorrected, &other.uncorrected);
    }
}

/// Both have the same bounds, so nothing can fail to fit.
pub(super) fn add(into: &mut Histogram<u64>, from: &Histogram<u64>) {
    if let Err(error) = into.add(from) {
        unreachable!("histograms of one shape: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_have_the_shape_of_wrk2() {
        let mut latencies = ns_histogram();
        latencies.record(25_400).unwrap();
        latencies.record(DAY_NS).unwrap();
        let micros = in_micros(&latencies);
        assert_eq!((micros.min(), micros.len()), (25, 2));
        assert!(micros.max() >= DAY_NS / 1000);
    }
}
