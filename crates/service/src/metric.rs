/// How the numbers of a metric behave over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows. The name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It counts observations by size.
    Histogram,
}

/// A number, or a distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum MetricValue {
    /// The number of a counter or a gauge.
    Number(f64),
    /// Observations by size.
    Distribution(Distribution),
}

/// How many observations were at most so large, in seconds or another unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Upper bounds, rising, and how many are at or below each but above the one before.
    pub buckets: Vec<(f64, u64)>,
    /// How many there were, those above the last bound included.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

/// One of the values of a metric, and the labels that tell it from the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Names and values of its labels; none if it is the only one of its metric.
    pub labels: Vec<(&'static str, String)>,
    /// What it is now.
    pub value: MetricValue,
}

/// A metric, as Prometheus knows it: a name, a sentence, and a value for each set of labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its name, by the rules of Prometheus: the unit comes last, `_total` after it if it is a counter.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub help: &'static str,
    /// How it behaves.
    pub kind: MetricKind,
    /// Its values.
    pub series: Vec<Series>,
}

impl Metric {
    /// A counter without labels.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Metric {
        Metric::number(MetricKind::Counter, name, help, value as f64)
    }

    /// A gauge without labels.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Metric {
        Metric::number(MetricKind::Gauge, name, help, value as f64)
    }

    /// A counter or a gauge of something that is measured, not counted.
    pub fn number(kind: MetricKind, name: &'static str, help: &'static str, value: f64) -> Metric {
        Metric {
            name,
            help,
            kind,
            series: vec![Series { labels: Vec::new(), value: MetricValue::Number(value) }],
        }
    }

    /// A histogram without labels.
    pub fn histogram(name: &'static str, help: &'static str, value: Distribution) -> Metric {
        let series = Series { labels: Vec::new(), value: MetricValue::Distribution(value) };
        Metric { name, help, kind: MetricKind::Histogram, series: vec![series] }
    }

    /// A counter or a gauge with one number for each value of a label.
    pub fn by_label(
        kind: MetricKind,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        numbers: impl IntoIterator<Item = (String, f64)>,
    ) -> Metric {
        let series = |(of, number)| Series { labels: vec![(label, of)], value: MetricValue::Number(number) };
        Metric { name, help, kind, series: numbers.into_iter().map(series).collect() }
    }
}
