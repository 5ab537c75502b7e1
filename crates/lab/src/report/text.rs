//! The text of wrk and wrk2, line for line.

use std::io::{self, Write};

use hdrhistogram::Histogram;

use super::spectrum;
use crate::stats::{RunOutcome, in_micros};
use crate::units::{format_binary, format_metric, format_time_s, format_time_us};

/// What is known before the run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header<'a> {
    pub(crate) duration_ms: u64,
    pub(crate) url: &'a str,
    pub(crate) threads: u64,
    pub(crate) connections: u64,
}

pub(crate) fn print_header(header: Header<'_>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "Running {} test @ {}", format_time_s(header.duration_ms as f64 / 1000.0), header.url)?;
    writeln!(out, "  {} threads and {} connections", header.threads, header.connections)
}

/// `with_percentiles` is `-L`, `with_uncorrected` is `-U`. In a closed loop the percentiles are wrk's, else wrk2's.
pub(crate) fn print_result(
    outcome: &RunOutcome,
    with_percentiles: bool,
    with_uncorrected: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    let all = outcome.all();
    let corrected = in_micros(&all.corrected);
    print_thread_stats(outcome, &corrected, out)?;
    match (outcome.rate, with_percentiles) {
        (_, false) => {}
        (None, true) => print_few_percentiles(&corrected, out)?,
        (Some(_), true) => {
            print_percentiles("Recorded Latency", &corrected, out)?;
            if with_uncorrected {
                writeln!(out)?;
                let name = "Uncorrected Latency (measured without taking delayed starts into account)";
                print_percentiles(name, &in_micros(&all.uncorrected), out)?;
            }
        }
    }
    print_totals(outcome, out)
}

fn print_thread_stats(outcome: &RunOutcome, latency: &Histogram<u64>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    let moments = [latency.mean(), latency.stdev(), latency.lowest_equivalent(latency.max()) as f64];
    print_stats("Latency", moments.map(format_time_us), within_stdev(latency), out)?;
    let samples = &outcome.samples;
    let moments = [samples.mean(), samples.stdev(), samples.max() as f64];
    print_stats("Req/Sec", moments.map(format_metric), samples.within_stdev(), out)
}

fn print_stats(name: &str, moments: [String; 3], within: f64, out: &mut dyn Write) -> io::Result<()> {
    let [mean, stdev, max] = moments;
    writeln!(out, "    {name:<10}{}{}{}{within:8.2}%", units(&mean, 8), units(&stdev, 10), units(&max, 9))
}

/// Numbers are aligned, whatever their units: a unit takes two columns, or leaves them blank.
fn units(text: &str, width: usize) -> String {
    let letters = text.bytes().rev().take(2).filter(u8::is_ascii_alphabetic).count();
    let pad = 2 - letters;
    let width = width - pad;
    format!("{text:>width$.width$}{:pad$}", "")
}

/// The percentage within one standard deviation of the mean.
fn within_stdev(latency: &Histogram<u64>) -> f64 {
    if latency.is_empty() {
        return 0.0;
    }
    let (mean, stdev) = (latency.mean(), latency.stdev());
    let is_within = |value: u64| (latency.median_equivalent(value) as f64 - mean).abs() <= stdev;
    let within: u64 = latency
        .iter_recorded()
        .filter(|entry| is_within(entry.value_iterated_to()))
        .map(|entry| entry.count_at_value())
        .sum();
    within as f64 * 100.0 / latency.len() as f64
}

fn print_few_percentiles(latency: &Histogram<u64>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  Latency Distribution")?;
    for percentile in [50.0, 75.0, 90.0, 99.0] {
        let value = latency.value_at_percentile(percentile) as f64;
        writeln!(out, "{percentile:7.0}%{}", units(&format_time_us(value), 10))?;
    }
    Ok(())
}

fn print_percentiles(name: &str, latency: &Histogram<u64>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  Latency Distribution (HdrHistogram - {name})")?;
    for percentile in [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0] {
        let value = latency.value_at_percentile(percentile) as f64;
        writeln!(out, "{percentile:7.3}%{}", units(&format_time_us(value), 10))?;
    }
    spectrum::print(latency, out)?;
    writeln!(out, "----------------------------------------------------------")
}

fn print_totals(outcome: &RunOutcome, out: &mut dyn Write) -> io::Result<()> {
    let runtime = format_time_us(outcome.elapsed_ns as f64 / 1000.0);
    writeln!(
        out,
        "  {} requests in {runtime}, {}B read",
        outcome.complete,
        format_binary(outcome.bytes as f64)
    )?;
    let errors = outcome.errors;
    if errors.socket() > 0 {
        writeln!(
            out,
            "  Socket errors: connect {}, read {}, write {}, timeout {}",
            errors.connect, errors.read, errors.write, errors.timeout
        )?;
    }
    if errors.status > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {}", errors.status)?;
    }
    writeln!(out, "Requests/sec: {:9.2}", outcome.per_second())?;
    writeln!(out, "Transfer/sec: {:>10}B", format_binary(outcome.bytes_per_second()))
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
