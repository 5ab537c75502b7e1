/// Rates of single threads, sampled at even distances; what wrk calls `Req/Sec`. A sample in which nothing completed
/// is a zero, not a gap.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Samples {
    sorted: Vec<u64>,
}

impl Samples {
    pub(crate) fn new(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        Self { sorted: samples }
    }

    pub(crate) fn sorted(&self) -> &[u64] {
        &self.sorted
    }

    pub(crate) fn max(&self) -> u64 {
        self.sorted.last().copied().unwrap_or(0)
    }

    /// Zero if there are none.
    pub(crate) fn mean(&self) -> f64 {
        if self.sorted.is_empty() {
            return 0.0;
        }
        self.sorted.iter().sum::<u64>() as f64 / self.sorted.len() as f64
    }

    /// Of a sample, hence divided by one less than there are; zero if there are fewer than two.
    pub(crate) fn stdev(&self) -> f64 {
        if self.sorted.len() < 2 {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 = self.sorted.iter().map(|sample| (*sample as f64 - mean).powi(2)).sum();
        (squares / (self.sorted.len() - 1) as f64).sqrt()
    }

    /// The percentage within one standard deviation of the mean.
    pub(crate) fn within_stdev(&self) -> f64 {
        if self.sorted.is_empty() {
            return 0.0;
        }
        let (mean, stdev) = (self.mean(), self.stdev());
        let within = self.sorted.iter().filter(|sample| (**sample as f64 - mean).abs() <= stdev).count();
        within as f64 * 100.0 / self.sorted.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_at_all_is_zero_and_no_nan() {
        let none = Samples::default();
        assert_eq!((none.max(), none.mean(), none.stdev(), none.within_stdev()), (0, 0.0, 0.0, 0.0));
    }

    #[test]
    fn moments_are_those_of_a_sample() {
        let samples = Samples::new(vec![4, 2, 4, 4, 5, 5, 7, 9]);
        assert!((samples.mean() - 5.0).abs() < 1e-12);
        assert!((samples.stdev() - 2.138_089_935).abs() < 1e-6);
        assert_eq!(samples.max(), 9);
        assert!((samples.within_stdev() - 75.0).abs() < 1e-9);
    }
}
