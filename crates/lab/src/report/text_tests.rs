use super::*;
use crate::http::Method;
use crate::stats::{Class, Samples};

/// What differs from run to run, made the same: digits, and the blanks that a longer number pushes out.
fn shape(text: &str) -> Vec<String> {
    let is_stable = |line: &&str| !line.contains("Thread calibration");
    let mut shapes: Vec<String> = text.lines().filter(is_stable).map(shape_of_line).collect();
    shapes.dedup(); // The rows of a spectrum are as many as there are values.
    shapes
}

/// A number and its unit become one `9`, blanks become one.
fn shape_of_line(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let mut shape = String::new();
        for c in word.chars() {
            let is_number = c.is_ascii_digit() || c == '.';
            let follows_number = shape.ends_with('9') && (is_number || "kKMGBmus".contains(c));
            if !follows_number {
                shape.push(if is_number { '9' } else { c });
            }
        }
        shape
    });
    words.collect::<Vec<_>>().join(" ")
}

fn outcome(rate: Option<f64>, threads: usize) -> RunOutcome {
    let mut outcome = RunOutcome::new(rate);
    for step in 1..=2000_u64 {
        let latencies = outcome.latencies.at(Class::Success, Method::Get);
        latencies.corrected.record(step * step * 1000).unwrap();
        latencies.uncorrected.record(step * 30).unwrap();
    }
    outcome.samples = Samples::new((0..threads as u64 * 100).map(|sample| 1000 + sample).collect());
    outcome.complete = 29_998;
    outcome.bytes = 4_645_192;
    outcome.elapsed_ns = 15_000_100_000;
    outcome
}

fn printed(header: Header<'_>, outcome: &RunOutcome, percentiles: bool, uncorrected: bool) -> String {
    let mut out = Vec::new();
    print_header(header, &mut out).unwrap();
    print_result(outcome, percentiles, uncorrected, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

const HEADER: Header<'static> =
    Header { duration_ms: 15_000, url: "http://localhost:8080", threads: 2, connections: 4 };

#[test]
fn the_text_is_that_of_wrk2_line_for_line() {
    let ours = printed(HEADER, &outcome(Some(2000.0), 2), true, false);
    assert_eq!(shape(&ours), shape(include_str!("../../tests/wrk2/wrk2-L.txt")));
    let ours = printed(HEADER, &outcome(Some(1000.0), 1), true, true);
    assert_eq!(shape(&ours), shape(include_str!("../../tests/wrk2/wrk2-U.txt")));
}

#[test]
fn the_text_of_a_closed_loop_is_that_of_wrk_line_for_line() {
    let ours = printed(Header { duration_ms: 3_000, ..HEADER }, &outcome(None, 2), true, true);
    assert_eq!(shape(&ours), shape(include_str!("../../tests/wrk2/wrk-latency.txt")));
}

#[test]
fn columns_stand_where_wrk_has_them() {
    let row = |mean: f64, stdev: f64, max: f64, within: f64| {
        let mut out = Vec::new();
        print_stats("Latency", [mean, stdev, max].map(format_time_us), within, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(row(704.36, 391.70, 5730.0, 72.73), "    Latency   704.36us  391.70us   5.73ms   72.73%\n");
    assert_eq!(row(75.24, 355.0, 5280.0, 97.45), "    Latency    75.24us  355.00us   5.28ms   97.45%\n");
    let mut out = Vec::new();
    print_stats("Req/Sec", [1060.0, 69.3, 1550.0].map(format_metric), 95.15, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "    Req/Sec     1.06k    69.30     1.55k    95.15%\n");
    assert_eq!(format!("{:7.3}%{}", 75.0, units("0.97ms", 10)), " 75.000%    0.97ms");
}

#[test]
fn totals_and_errors_are_written_as_scripts_expect_them() {
    let mut outcome = outcome(Some(2000.0), 2);
    assert!(printed(HEADER, &outcome, false, false).ends_with(
        "  29998 requests in 15.00s, 4.43MB read\nRequests/sec:   1999.85\nTransfer/sec:    302.42KB\n"
    ));
    outcome.errors.read = 3;
    outcome.errors.status = 2;
    let text = printed(HEADER, &outcome, false, false);
    assert!(text.contains(
        "read\n  Socket errors: connect 0, read 3, write 0, timeout 0\n  Non-2xx or 3xx responses: 2\nReq"
    ));
}

#[test]
fn a_run_in_which_nothing_completed_has_no_nan() {
    let text = printed(HEADER, &RunOutcome::new(Some(5.0)), true, true).to_lowercase();
    assert!(!text.contains("nan"), "{text}");
    assert!(text.contains("requests/sec:      0.00\n"), "{text}");
}
