use std::fmt;

use ladoga_service::{Distribution, Metric, MetricKind, MetricValue, Series};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

/// What the name of a counter ends in.
const COUNTER_SUFFIX: &str = "_total";
/// From here on a float does not tell whole numbers apart.
const WHOLE_MAX: f64 = (1_u64 << f64::MANTISSA_DIGITS) as f64;

/// A format in which `/metrics` answers.
///
/// `prometheus-client` writes both. They differ in a counter: `OpenMetrics` has `_total` on its values only, the text
/// format has it on its `HELP` and `TYPE` too. And only `OpenMetrics` ends with `# EOF`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exposition {
    /// The text format of Prometheus, version 0.0.4.
    Text,
    /// `OpenMetrics` 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// The content type of an answer in it.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Exposition::Text => "text/plain; version=0.0.4; charset=utf-8",
            Exposition::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Writes metrics.
    pub(super) fn write(self, metrics: Vec<Metric>) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Page { exposition: self, metrics }));
        let mut text = String::new();
        match self {
            Exposition::Text => encode_registry(&mut text, &registry)?,
            Exposition::OpenMetrics => encode(&mut text, &registry)?,
        }
        Ok(text)
    }

    fn write_metric(self, encoder: &mut DescriptorEncoder<'_>, metric: &Metric) -> fmt::Result {
        let kind = match metric.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Histogram => MetricType::Histogram,
        };
        let without_suffix = match (self, metric.kind) {
            (Exposition::OpenMetrics, MetricKind::Counter) => metric.name.strip_suffix(COUNTER_SUFFIX),
            _ => None,
        };
        let name = without_suffix.unwrap_or(metric.name);
        let mut encoder = encoder.encode_descriptor(name, metric.help, None, kind)?;
        for Series { labels, value } in &metric.series {
            if labels.is_empty() {
                write_value(&mut encoder, value, without_suffix.is_some())?;
            } else {
                write_value(&mut encoder.encode_family(labels)?, value, without_suffix.is_some())?;
            }
        }
        Ok(())
    }
}

/// What one scrape has.
#[derive(Debug)]
struct Page {
    exposition: Exposition,
    metrics: Vec<Metric>,
}

impl Collector for Page {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.metrics.iter().try_for_each(|metric| self.exposition.write_metric(&mut encoder, metric))
    }
}

/// Writes a value; the encoder adds the suffix of a counter if it `lacks_suffix`.
fn write_value(encoder: &mut MetricEncoder<'_>, value: &MetricValue, lacks_suffix: bool) -> fmt::Result {
    match value {
        MetricValue::Distribution(distribution) => write_distribution(encoder, distribution),
        MetricValue::Number(number) if lacks_suffix => match whole(*number) {
            Some(number) => encoder.encode_counter::<NoLabelSet, u64, f64>(&number, None),
            None => encoder.encode_counter::<NoLabelSet, f64, f64>(number, None),
        },
        MetricValue::Number(number) => match whole(*number) {
            Some(number) => encoder.encode_gauge(&number),
            None => encoder.encode_gauge(number),
        },
    }
}

fn write_distribution(encoder: &mut MetricEncoder<'_>, distribution: &Distribution) -> fmt::Result {
    let bounded: u64 = distribution.buckets.iter().map(|(_, count)| count).sum();
    let open = (f64::INFINITY, distribution.count.saturating_sub(bounded));
    let buckets: Vec<_> = distribution.buckets.iter().copied().chain([open]).collect();
    encoder.encode_histogram::<NoLabelSet>(distribution.sum, distribution.count, &buckets, None)
}

/// A number that is counted is written without a point.
fn whole(number: f64) -> Option<u64> {
    (number >= 0.0 && number.fract() == 0.0 && number < WHOLE_MAX).then_some(number as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<Metric> {
        let distribution = Distribution { buckets: vec![(0.5, 1), (1.0, 2)], count: 4, sum: 9.5 };
        let states = [("a \"b\"".to_owned(), 1.0), ("c".to_owned(), -0.25)];
        vec![
            Metric::counter("f_jobs_total", "Jobs done.", 7),
            Metric::number(MetricKind::Counter, "f_wait_seconds_total", "Time waited.", 1.5),
            Metric::by_label(MetricKind::Gauge, "f_state", "State.", "of", states),
            Metric::histogram("f_seconds", "How long.", distribution),
        ]
    }

    const REST: &str = "# HELP f_state State.\n# TYPE f_state gauge\n\
        f_state{of=\"a \\\"b\\\"\"} 1\nf_state{of=\"c\"} -0.25\n\
        # HELP f_seconds How long.\n# TYPE f_seconds histogram\nf_seconds_sum 9.5\nf_seconds_count 4\n\
        f_seconds_bucket{le=\"0.5\"} 1\nf_seconds_bucket{le=\"1.0\"} 3\nf_seconds_bucket{le=\"+Inf\"} 4\n";

    #[test]
    fn the_text_format_names_counters_with_their_suffix() {
        let counters = "# HELP f_jobs_total Jobs done.\n# TYPE f_jobs_total counter\nf_jobs_total 7\n\
            # HELP f_wait_seconds_total Time waited.\n# TYPE f_wait_seconds_total counter\nf_wait_seconds_total 1.5\n";
        assert_eq!(Exposition::Text.write(page()).expect("text"), format!("{counters}{REST}"));
    }

    #[test]
    fn open_metrics_names_counters_without_it_and_ends() {
        let counters = "# HELP f_jobs Jobs done.\n# TYPE f_jobs counter\nf_jobs_total 7\n\
            # HELP f_wait_seconds Time waited.\n# TYPE f_wait_seconds counter\nf_wait_seconds_total 1.5\n";
        assert_eq!(Exposition::OpenMetrics.write(page()).expect("text"), format!("{counters}{REST}# EOF\n"));
    }
}
