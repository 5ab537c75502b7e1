use ladoga_runtime::{Metrics, Sums};
use ladoga_service::{Sample, SampleKind, SampleValue};

use super::text::Text;

/// What `/metrics` answers: the figures of the node, and those of its store.
pub(crate) fn report(metrics: &Metrics, store: &[Sample]) -> String {
    let mut text = Text::default();
    let sums = Sums::of(&metrics.loops);
    requests(&mut text, &sums);
    for (name, help, value) in [
        ("ladoga_received_bytes_total", "Bytes of values received.", sums.received_bytes),
        ("ladoga_sent_bytes_total", "Bytes of answers sent, without their heads.", sums.sent_bytes),
        ("ladoga_answers_cut_off_total", "Answers that could not be completed.", sums.cut_off),
        ("ladoga_clock_ahead_refused_total", "Versions too far ahead of this clock.", sums.clock_ahead),
        ("ladoga_read_repairs_total", "Replicas that a read found stale.", sums.read_repairs),
        (
            "ladoga_read_repairs_left_total",
            "Of these those left to hints and anti-entropy, as the pace of repair had no room.",
            sums.read_repairs_left,
        ),
        ("ladoga_connections_total", "Connections accepted.", sums.connections_total),
        ("ladoga_connections_refused_total", "Connections over the limit.", sums.connections_refused),
    ] {
        text.family(name, "counter", help);
        text.figure(name, "", value);
    }
    let name = "ladoga_displaced_total";
    text.family(name, "counter", "Slow clients that gave way to others, by what they gave back.");
    for (of, count) in sums.displaced {
        text.figure(name, &format!("of=\"{of}\""), count);
    }
    text.family("ladoga_connections", "gauge", "Connections open.");
    text.figure("ladoga_connections", "", sums.connections);
    for sample in store {
        write_sample(&mut text, sample);
    }
    text.finish()
}

fn requests(text: &mut Text, sums: &Sums) {
    let labels = |operation: &str, status: u16| format!("operation=\"{operation}\",status=\"{status}\"");
    let name = "ladoga_requests_total";
    text.family(name, "counter", "Requests answered.");
    for (operation, status, sum) in &sums.requests {
        text.figure(name, &labels(operation, *status), sum.count());
    }
    let name = "ladoga_request_duration_seconds";
    text.family(name, "histogram", "Time from the head of a request to the head of its answer.");
    for (operation, status, sum) in &sums.requests {
        text.histogram(name, &labels(operation, *status), sum.buckets(), sum.count(), sum.sum_seconds());
    }
}

fn write_sample(text: &mut Text, sample: &Sample) {
    let name = sample.name;
    let kind = match (&sample.value, sample.kind) {
        (SampleValue::Histogram { .. }, _) => "histogram",
        (_, SampleKind::Counter) => "counter",
        (_, SampleKind::Gauge) => "gauge",
    };
    text.family(name, kind, sample.help);
    match &sample.value {
        SampleValue::Number(value) => text.figure(name, "", value),
        SampleValue::Labelled { label, values } => {
            for (of, value) in values {
                text.figure(name, &format!("{label}=\"{of}\""), value);
            }
        }
        SampleValue::Histogram { buckets, count, sum } => {
            text.histogram(name, "", buckets.iter().copied(), *count, *sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_runtime::Operation;

    #[test]
    fn says_what_the_node_and_what_the_store_counted() {
        let metrics = Metrics::new(2);
        metrics.loops[0].answered(Operation::None, 400, 1);
        let sample = |name, value| Sample { name, help: "Help.", kind: SampleKind::Gauge, value };
        let levels = SampleValue::Labelled { label: "level", values: vec![("0".into(), 3.0)] };
        let store = [sample("s_bytes", SampleValue::Number(1.5)), sample("s_tables", levels)];
        let text = report(&metrics, &store);
        assert!(text.contains("ladoga_requests_total{operation=\"none\",status=\"400\"} 1\n"), "{text}");
        assert!(text.contains("# TYPE s_bytes gauge\ns_bytes 1.5\n"), "{text}");
        assert!(text.contains("s_tables{level=\"0\"} 3\n"), "{text}");
    }
}
