use std::io;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use serde_json::{Value, json};

use crate::engine::Watcher;
use crate::error::{LabError, Outcome};
use crate::files;
use crate::http::Method;
use crate::stats::{self, Class, HELD_S, Latencies, Limit, SECOND_NS, Second};

/// What the percentiles of the JSON are.
const PERCENTILES: [(&str, f64); 7] = [
    ("p50", 50.0),
    ("p75", 75.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("p99.99", 99.99),
    ("p99.999", 99.999),
];

/// The result as JSON; times are in microseconds.
pub(crate) fn write_json(
    path: &Path,
    run: &Value,
    outcome: &stats::RunOutcome,
    misses_are_good: bool,
) -> Outcome<()> {
    files::replace(path, format!("{:#}\n", json_of(run, outcome, misses_are_good)))
}

fn json_of(run: &Value, outcome: &stats::RunOutcome, misses_are_good: bool) -> Value {
    let (all, found) = (outcome.all(), &outcome.latencies);
    // These are there even if none came, for programs that look for them.
    let usual = [Class::Success, Class::NOT_FOUND, Class::Status(503), Class::TimedOut, Class::Broken];
    let answers: serde_json::Map<String, Value> = usual
        .into_iter()
        .chain(found.classes())
        .map(|class| (class.to_string(), counted_json(outcome.count(class), &found.of(class))))
        .collect();
    let method = |method: Method| {
        (method.name().to_owned(), counted_json(found.count_of_method(method), &found.of_method(method)))
    };
    let methods: serde_json::Map<String, Value> = found.methods().into_iter().map(method).collect();
    let (errors, failures) = (outcome.errors, outcome.failures(misses_are_good));
    json!({
        "run": run,
        "duration_s": outcome.elapsed_ns as f64 / 1e9,
        "interrupted": outcome.is_interrupted,
        "requests": outcome.complete,
        "bytes": outcome.bytes,
        "requests_per_second": outcome.per_second(),
        "bytes_per_second": outcome.bytes_per_second(),
        "rate": outcome.rate,
        "unanswered": outcome.unanswered,
        "latency_us": latency_json(&all.corrected),
        "uncorrected_us": latency_json(&all.uncorrected),
        "answers": answers,
        "methods": methods,
        "errors": {
            "connect": errors.connect, "read": errors.read, "write": errors.write,
            "timeout": errors.timeout, "status": errors.status,
        },
        "failures": {
            "count": failures.failed, "of": failures.of, "share": failures.share(), "unanswered": outcome.lost(),
        },
        "generator": {
            "lateness_us": latency_json(&outcome.lateness),
            "cpu_shares": outcome.cpu_shares,
            "cpu_us_per_request": if outcome.complete == 0 { Value::Null } else {
                json!(outcome.cpu_ns as f64 / 1000.0 / outcome.complete as f64)
            },
            "steal_share": outcome.steal_share,
            "limits": outcome.limits().into_iter().map(limit_name).collect::<Vec<_>>(),
        },
        "seconds": outcome.seconds.iter().map(second_json).collect::<Vec<_>>(),
    })
}

/// As programs read it.
pub(crate) const fn limit_name(limit: Limit) -> &'static str {
    match limit {
        Limit::Cpu(_) => "cpu",
        Limit::Late(_) => "late",
        Limit::Steal(_) => "steal",
    }
}

/// Null instead of percentiles if there are none.
fn latency_json(latencies: &Histogram<u64>) -> Value {
    if latencies.is_empty() {
        return json!({ "count": 0 });
    }
    let mut object = serde_json::Map::new();
    object.insert("count".to_owned(), json!(latencies.len()));
    object.insert("min".to_owned(), micros(latencies.min()));
    object.insert("mean".to_owned(), json!(latencies.mean() / 1000.0));
    object.insert("stdev".to_owned(), json!(latencies.stdev() / 1000.0));
    for (name, percentile) in PERCENTILES {
        object.insert(name.to_owned(), micros(latencies.value_at_percentile(percentile)));
    }
    object.insert("max".to_owned(), micros(latencies.max()));
    Value::Object(object)
}

/// The same of so many requests. With `-B` only the last answer of a batch has a latency; what broke has none.
fn counted_json(count: u64, latencies: &Latencies) -> Value {
    let mut value = latency_json(&latencies.corrected);
    value["count"] = json!(count);
    value
}

fn micros(ns: u64) -> Value {
    json!(ns as f64 / 1000.0)
}

fn second_json(second: &Second) -> Value {
    let latency = second.percentiles_ns.map(|ns| {
        let [p50, p99, p999, max] = ns.map(micros);
        json!({ "p50": p50, "p99": p99, "p99.9": p999, "max": max })
    });
    let kinds: serde_json::Map<String, Value> = stats::ERROR_KINDS
        .into_iter()
        .zip(second.errors_by_kind)
        .filter(|(_, count)| *count > 0)
        .map(|(kind, count)| (kind.to_owned(), json!(count)))
        .collect();
    json!({
        "second": second.number,
        "duration_s": second.length_ns as f64 / 1e9,
        "completed": second.completed,
        "errors": second.errors,
        "errors_by_kind": kinds,
        "latency_us": latency,
    })
}

/// An `HdrHistogram` interval log, in nanoseconds, one line a second. Lines are collected during the run, and written after it:
/// a disk must not disturb the measurement.
#[derive(Default)]
pub(crate) struct HdrLog {
    /// As they will be in the file: a histogram takes some hundred KiB, its line a few.
    lines: Vec<u8>,
    serializer: V2DeflateSerializer,
    /// Why a line is missing.
    failure: Option<io::Error>,
}

impl HdrLog {
    /// Of a run that began at this time of day.
    pub(crate) fn write(self, path: &Path, started_unix_ms: u64) -> Outcome<()> {
        let bytes = self
            .bytes(started_unix_ms)
            .map_err(|source| LabError::Write { path: path.to_owned(), source })?;
        files::replace(path, bytes)
    }

    fn bytes(self, started_unix_ms: u64) -> io::Result<Vec<u8>> {
        self.failure.map_or(Ok(()), Err)?;
        let mut bytes = Vec::new();
        let mut serializer = self.serializer;
        log_builder()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment("[corrected latencies in nanoseconds; Interval_Max in milliseconds]")
            .add_comment(&format!(
                "[a latency is in the second in which its request was due, or {HELD_S} s before it ended if that is later]"
            ))
            .with_start_time(UNIX_EPOCH + Duration::from_millis(started_unix_ms))
            .begin_log_with(&mut bytes, &mut serializer)?;
        bytes.extend_from_slice(&self.lines);
        Ok(bytes)
    }

    fn add_line(&mut self, second: &Second, latencies: &Histogram<u64>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut log = log_builder().begin_log_with(&mut bytes, &mut self.serializer)?;
        let start = Duration::from_nanos(second.number * SECOND_NS);
        log.write_histogram(latencies, start, Duration::from_nanos(second.length_ns), None)
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
        // What stands before it is of the head of a log, which has it once.
        self.lines
            .extend_from_slice(bytes.split_inclusive(|byte| *byte == b'\n').next_back().unwrap_or_default());
        Ok(())
    }
}

/// For lines and for their head, which have to agree.
fn log_builder() -> IntervalLogWriterBuilder {
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_max_value_divisor(1_000_000.0);
    builder
}

impl Watcher for HdrLog {
    fn second(&mut self, second: &Second, latencies: &Histogram<u64>) {
        if let Err(error) = self.add_line(second, latencies) {
            self.failure.get_or_insert(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: u64) -> Second {
        let (errors_by_kind, percentiles_ns) = ([0; 3], None);
        Second { number, length_ns: SECOND_NS, completed: 1, errors: 0, errors_by_kind, percentiles_ns }
    }

    #[test]
    fn the_json_tells_answers_apart_and_has_no_nan() {
        let mut outcome = stats::RunOutcome::new(Some(10.0));
        outcome.latencies.at(Class::NOT_FOUND, Method::Get).corrected.record(2_000).unwrap();
        let value = json_of(&json!({ "url": "http://a" }), &outcome, false);
        assert_eq!(value["answers"]["404"]["count"], 1);
        assert_eq!(value["answers"]["2xx"], json!({ "count": 0 }));
        assert_eq!(value["methods"]["GET"]["count"], 1);
        assert_eq!(value["latency_us"]["p99"], 2.0);
        assert_eq!(value["failures"], json!({ "count": 1, "of": 1, "share": 1.0, "unanswered": 0 }));
        assert_eq!(value["generator"]["cpu_us_per_request"], Value::Null);
    }

    /// A server that breaks connections at once is not fast, with one method either.
    #[test]
    fn what_broke_is_in_the_latencies_of_no_method() {
        let mut outcome = stats::RunOutcome::new(None);
        for (class, ns) in [(Class::Success, 2_000_000), (Class::Broken, 1_000), (Class::Broken, 1_000)] {
            outcome.latencies.at(class, Method::Get).corrected.record(ns).unwrap();
        }
        let value = json_of(&json!({}), &outcome, false);
        assert_eq!(value["methods"]["GET"]["p50"], value["latency_us"]["p50"]);
        assert_eq!(value["methods"]["GET"]["count"], 3, "they are counted all the same");
    }

    #[test]
    fn the_log_has_a_line_for_every_second() {
        let mut log = HdrLog::default();
        let mut latencies = stats::ns_histogram();
        latencies.record(5_000_000).unwrap();
        for number in 0..3 {
            log.second(&second(number), &latencies);
        }
        let text = String::from_utf8(log.bytes(1_700_000_000_125).unwrap()).unwrap();
        assert!(text.starts_with("#[Histogram log format version 1.3]\n"), "{text}");
        assert!(
            text.contains("StartTime: 1700000000.125"),
            "when the run began, not when it was written: {text}"
        );
        assert!(text.contains(" due, or 3 s before it ended if that is later]\n"), "{text}");
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("HISTFAAA")).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with("1.000,1.000,5."), "{text}");
        assert_eq!(text.matches("MaxValueDivisor").count(), 1, "{text}");
    }

    /// `-d 1500ms` had two seconds, of which the second was half as fast.
    #[test]
    fn a_second_that_the_end_cuts_off_is_told_as_such() {
        let half = Second { length_ns: SECOND_NS / 2, ..second(1) };
        let mut log = HdrLog::default();
        let mut latencies = stats::ns_histogram();
        latencies.record(5_000_000).unwrap();
        log.second(&half, &latencies);
        let text = String::from_utf8(log.bytes(0).unwrap()).unwrap();
        assert!(text.contains("\n1.000,0.500,5."), "{text}");
        let mut outcome = stats::RunOutcome::new(None);
        outcome.seconds = vec![second(0), half];
        let value = json_of(&json!({}), &outcome, false);
        assert_eq!([0, 1].map(|row| value["seconds"][row]["duration_s"].clone()), [json!(1.0), json!(0.5)]);
    }

    /// Each second was kept as a whole histogram, 300 KiB of it: a gigabyte in an hour.
    #[test]
    fn a_long_run_takes_little_memory() {
        let mut log = HdrLog::default();
        let mut latencies = stats::ns_histogram();
        for micros in 100..2_000 {
            latencies.record(micros * 1_000).unwrap();
        }
        log.second(&second(0), &latencies);
        assert!((1..16 << 10).contains(&log.lines.len()), "{} bytes", log.lines.len());
    }
}
