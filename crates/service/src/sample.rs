/// How a figure behaves over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SampleKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
}

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub enum SampleValue {
    /// One number.
    Number(f64),
    /// One number for each value of a label.
    Labelled {
        /// The name of the label.
        label: &'static str,
        /// Its values, and their numbers.
        values: Vec<(String, f64)>,
    },
    /// How often something was at most so large: so many seconds, or so many of something.
    Histogram {
        /// Upper bounds, rising, and how many are at or below each but above the one before.
        buckets: Vec<(f64, u64)>,
        /// How many there were, those above the last bound included.
        count: u64,
        /// Their sum.
        sum: f64,
    },
}

/// A figure that a store says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its name, in the words and units of Prometheus.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// How it behaves.
    pub kind: SampleKind,
    /// What it is now.
    pub value: SampleValue,
}
