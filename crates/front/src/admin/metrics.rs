use ladoga_runtime::{HistogramSum, Metrics, Sums, Traces};
use ladoga_service::{Distribution, Metric, MetricKind, MetricValue, Series};

/// What the event loops count, added up.
pub(super) fn loop_metrics(metrics: &Metrics) -> Vec<Metric> {
    let sums = Sums::of(&metrics.loops);
    let mut metrics: Vec<Metric> = requests(&sums).into();
    metrics.extend(commands(&sums));
    metrics.extend(counters(&sums));
    let evicted = sums.displaced.map(|(resource, count)| (resource.to_owned(), count as f64));
    metrics.push(Metric::by_label(
        MetricKind::Counter,
        "ladoga_slow_clients_evicted_total",
        "Clients disconnected so that others could go on, by what they held.",
        "resource",
        evicted,
    ));
    metrics.push(Metric::gauge("ladoga_connections", "Open client connections.", sums.connections));
    metrics
}

/// What became of the spans of recorded traces.
pub(super) fn span_metric(traces: &Traces) -> Metric {
    let counts = traces.figures.counts().map(|(outcome, count)| (outcome.to_owned(), count as f64));
    Metric::by_label(
        MetricKind::Counter,
        "ladoga_trace_spans_total",
        "Spans of recorded traces: exported, dropped because too many waited, or failed because no collector took them.",
        "outcome",
        counts,
    )
}

fn counters(sums: &Sums) -> impl Iterator<Item = Metric> {
    [
        ("ladoga_request_body_bytes_total", "Bytes of values received from clients.", sums.received_bytes),
        ("ladoga_response_body_bytes_total", "Bytes of response bodies sent to clients.", sums.sent_bytes),
        (
            "ladoga_slow_requests_total",
            "Requests and Redis commands that took as long as --slow-request, or longer.",
            sums.slow_requests,
        ),
        ("ladoga_responses_aborted_total", "Responses that could not be completed.", sums.cut_off),
        (
            "ladoga_versions_refused_clock_ahead_total",
            "Versions refused because they are too far ahead of this node's clock.",
            sums.clock_ahead,
        ),
        ("ladoga_read_repairs_total", "Stale replicas found by reads.", sums.read_repairs),
        (
            "ladoga_read_repairs_skipped_total",
            "Stale replicas found by reads and left to hints and anti-entropy, because repair was at its limit.",
            sums.read_repairs_left,
        ),
        ("ladoga_connections_accepted_total", "Client connections accepted.", sums.connections_total),
        (
            "ladoga_connections_moved_total",
            "Connections that went on at another event loop: the load asked for more or fewer of these, or a peer for that one.",
            sums.connections_moved,
        ),
        (
            "ladoga_connections_refused_total",
            "Client connections refused because there were too many.",
            sums.connections_refused,
        ),
    ]
    .into_iter()
    .map(|(name, help, value)| Metric::counter(name, help, value))
}

fn requests(sums: &Sums) -> [Metric; 2] {
    let series = |value: fn(&HistogramSum) -> MetricValue| {
        let requests = sums.requests.iter();
        let series = requests.map(|(operation, status, durations)| Series {
            labels: vec![("operation", (*operation).to_owned()), ("status", status.to_string())],
            value: value(durations),
        });
        series.collect()
    };
    [
        Metric {
            name: "ladoga_requests_total",
            help: "Requests answered.",
            kind: MetricKind::Counter,
            series: series(|durations| MetricValue::Number(durations.count() as f64)),
        },
        Metric {
            name: "ladoga_request_duration_seconds",
            help: "Time from the head of a request to the head of its response.",
            kind: MetricKind::Histogram,
            series: series(|durations| MetricValue::Distribution(distribution(durations))),
        },
    ]
}

fn commands(sums: &Sums) -> [Metric; 2] {
    let series = |value: fn(&HistogramSum) -> MetricValue| {
        let commands = sums.commands.iter();
        let series = commands.map(|(kind, result, durations)| Series {
            labels: vec![("kind", (*kind).to_owned()), ("result", (*result).to_owned())],
            value: value(durations),
        });
        series.collect()
    };
    [
        Metric {
            name: "ladoga_resp_commands_total",
            help: "Redis commands answered.",
            kind: MetricKind::Counter,
            series: series(|durations| MetricValue::Number(durations.count() as f64)),
        },
        Metric {
            name: "ladoga_resp_command_duration_seconds",
            help: "Time from the last byte of a Redis command to its reply.",
            kind: MetricKind::Histogram,
            series: series(|durations| MetricValue::Distribution(distribution(durations))),
        },
    ]
}

fn distribution(durations: &HistogramSum) -> Distribution {
    Distribution {
        buckets: durations.buckets().collect(),
        count: durations.count(),
        sum: durations.sum_seconds(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Exposition;
    use ladoga_runtime::CommandKind;

    #[test]
    fn requests_are_counted_by_operation_and_status() {
        let metrics = Metrics::new(2);
        metrics.loops[0].answered(None, 400, 1);
        metrics.loops[1].connected();
        metrics.loops[1].command_served(CommandKind::Read, false, 1);
        let text = Exposition::Text.write(loop_metrics(&metrics)).expect("text");
        for line in [
            "# TYPE ladoga_requests_total counter\nladoga_requests_total{operation=\"none\",status=\"400\"} 1\n",
            "ladoga_request_duration_seconds_count{operation=\"none\",status=\"400\"} 1\n",
            "ladoga_request_duration_seconds_bucket{le=\"+Inf\",operation=\"none\",status=\"400\"} 1\n",
            "\nladoga_resp_commands_total{kind=\"read\",result=\"ok\"} 1\n",
            "\nladoga_connections_accepted_total 1\n",
            "ladoga_slow_clients_evicted_total{resource=\"upload\"} 0\n",
            "\nladoga_connections 1\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
