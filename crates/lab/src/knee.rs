//! The highest rate that holds the SLO: doubled until one does not, then halved in between. What to try next is
//! decided purely; the runs are made elsewhere.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::cli::Options;
use crate::error::Outcome;
use crate::load::built_in;
use crate::report::Live;
use crate::slo::Slo;
use crate::stats;
use crate::units::{format_metric, format_time_us};

const SLO_DEFAULT: &str = "p99<10ms,errors<0.1%";
const RATE_FIRST: u64 = 1_000;
const RATE_MAX: u64 = 100_000_000;
/// The search ends where the bounds are so close to each other.
const PRECISION: f64 = 0.05;
/// A run that answers less than this part of its rate did not hold the rate.
const KEPT_SHARE: f64 = 0.98;

/// What is known: the highest rate that held, and the lowest that did not.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Search {
    held: Option<u64>,
    broke: Option<u64>,
}

impl Search {
    /// The rate to try next; none where the knee is known well enough.
    fn next(&self) -> Option<u64> {
        match (self.held, self.broke) {
            (None, None) => Some(RATE_FIRST),
            (Some(held), None) => (held < RATE_MAX).then(|| held.saturating_mul(2).min(RATE_MAX)),
            (None, Some(broke)) => (broke > 1).then_some(broke / 2),
            (Some(held), Some(broke)) => {
                let is_close = (broke - held) as f64 <= broke as f64 * PRECISION;
                let middle = u64::midpoint(held, broke);
                (!is_close && middle > held).then_some(middle)
            }
        }
    }

    fn learn(&mut self, rate: u64, held: bool) {
        if held { self.held = Some(rate) } else { self.broke = Some(rate) }
    }
}

/// Runs the search, printing a row for every rate.
pub(crate) fn find(options: &Options, stop: &Arc<AtomicBool>) -> Outcome<ExitCode> {
    let slo = match &options.slo {
        Some(slo) => slo.clone(),
        None => Slo::parse(SLO_DEFAULT).map_err(crate::error::LabError::Usage)?,
    };
    println!("Searching the highest rate that holds {slo} @ {}", options.target.url);
    println!("{:>10}{:>12}{:>11}{:>11}{:>11}{:>11}  ", "rate", "answered/s", "p50", "p99", "p99.9", "max");
    let (mut search, mut rows) = (Search::default(), Vec::new());
    while let Some(rate) = search.next() {
        let mut live = Live::new(options.duration_ms);
        let outcome = built_in(options, Some(rate)).run(stop, &mut live, &mut || io::Result::Ok(()))?;
        live.clear();
        if stop.load(Ordering::Relaxed) {
            println!("interrupted");
            break;
        }
        let mut reasons: Vec<String> =
            slo.check(&outcome, options.allow_misses).iter().map(ToString::to_string).collect();
        if outcome.per_second() < rate as f64 * KEPT_SHARE {
            reasons.push("the rate was not kept".to_owned());
        }
        let row = row(rate, &outcome);
        println!("{row}  {}", if reasons.is_empty() { "holds".to_owned() } else { reasons.join("; ") });
        rows.push((rate, row));
        search.learn(rate, reasons.is_empty());
        if outcome.complete == 0 {
            break;
        }
    }
    Ok(conclude(&slo, search, rows))
}

fn row(rate: u64, outcome: &stats::Outcome) -> String {
    let latencies = outcome.all().corrected;
    let at = |p| format!("{:>11}", format_time_us(latencies.value_at_percentile(p) as f64 / 1000.0));
    let percentiles = [50.0, 99.0, 99.9, 100.0].map(at).concat();
    format!("{rate:>10}{:>12}{percentiles}", format_metric(outcome.per_second()))
}

/// The latency curve up to the knee, in the order of the rates.
fn conclude(slo: &Slo, search: Search, mut rows: Vec<(u64, String)>) -> ExitCode {
    let Some(knee) = search.held else {
        println!("No rate that was tried holds {slo}.");
        return ExitCode::FAILURE;
    };
    rows.sort_by_key(|(rate, _)| *rate);
    println!("\nThe curve up to the knee:");
    rows.iter().filter(|(rate, _)| *rate <= knee).for_each(|(_, row)| println!("{row}"));
    println!("\nKnee: {knee} requests/sec hold {slo}.");
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn knee_of(capacity: u64) -> (Option<u64>, usize) {
        let (mut search, mut steps) = (Search::default(), 0);
        while let Some(rate) = search.next() {
            search.learn(rate, rate <= capacity);
            steps += 1;
            assert!(steps < 64, "the search ends");
        }
        (search.held, steps)
    }

    #[test]
    fn the_knee_is_found_within_its_precision() {
        for capacity in [3, 10, 999, 1000, 1001, 34_567, 1_000_000, 77_000_000] {
            let (held, steps) = knee_of(capacity);
            let held = held.unwrap();
            assert!(held <= capacity && held as f64 >= capacity as f64 * 0.94 - 1.0, "{held} of {capacity}");
            assert!(steps < 40, "{steps}");
        }
        assert_eq!(knee_of(0).0, None);
        assert_eq!(knee_of(u64::MAX).0, Some(RATE_MAX));
    }
}
