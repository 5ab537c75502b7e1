//! What wrk's text has no place for, in words. It goes to standard error, so that scripts around wrk's text still work.

use std::io::{self, Write};

use crate::stats::{Class, Limit, Outcome};
use crate::units::format_time_us;

/// What was asked for, as far as a note depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// A built-in workload, which `--fill` can write first.
    pub(crate) is_workload: bool,
    pub(crate) wants_percentiles: bool,
}

pub(crate) fn print_notes(outcome: &Outcome, asked: Asked, out: &mut dyn Write) -> io::Result<()> {
    if outcome.is_interrupted {
        writeln!(out, "note: interrupted; this is what was measured up to then")?;
    }
    if outcome.threads_given_up > 0 {
        let threads = outcome.threads_given_up;
        writeln!(out, "note: {threads} threads did not return from the script, so `done` was not called")?;
    }
    if outcome.complete == 0 {
        writeln!(out, "note: no request was answered")?;
    }
    if outcome.unanswered > 0 {
        writeln!(
            out,
            "note: {} requests were due by the end and had no answer; no percentile contains them",
            outcome.unanswered
        )?;
    }
    print_classes(outcome, out)?;
    if outcome.count(Class::NotFound) * 2 > outcome.complete {
        let remedy = if asked.is_workload { "; --fill writes them first" } else { "" };
        writeln!(out, "note: most answers were 404, so most reads read nothing{remedy}")?;
    }
    if outcome.rate.is_none() && asked.wants_percentiles {
        writeln!(
            out,
            "note: a closed loop sends nothing while it waits, so a stall of the server counts once for each \
             connection; -R counts it for every request that was due"
        )?;
    }
    for limit in outcome.limits() {
        writeln!(out, "note: {}", limit_in_words(limit))?;
    }
    let idle = outcome.seconds.iter().filter(|second| second.completed == 0).count();
    // The last interval is seldom a whole one.
    if idle > 1 && outcome.complete > 0 {
        writeln!(out, "note: in {idle} of {} seconds nothing completed", outcome.seconds.len())?;
    }
    Ok(())
}

/// Answers by class, where there are any but good ones.
fn print_classes(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let found: Vec<Class> = Class::ALL.into_iter().filter(|class| outcome.count(*class) > 0).collect();
    if found.iter().all(|class| *class == Class::Success) {
        return Ok(());
    }
    writeln!(out, "{:>9}{:>12}{:>11}{:>11}{:>11}{:>11}", "answer", "count", "p50", "p99", "p99.9", "max")?;
    for class in found {
        let latencies = &outcome.of(class).corrected;
        let at = |percentile| format_time_us(latencies.value_at_percentile(percentile) as f64 / 1000.0);
        let columns = [50.0, 99.0, 99.9, 100.0].map(|p| format!("{:>11}", at(p))).concat();
        writeln!(out, "{:>9}{:>12}{columns}", class.name(), latencies.len())?;
    }
    Ok(())
}

pub(crate) fn limit_in_words(limit: Limit) -> String {
    match limit {
        Limit::Cpu(share) => format!(
            "the generator was the limit: a thread of it used {:.0} % of a core; more threads (-t) may show more",
            share * 100.0
        ),
        Limit::Late(ns) => format!(
            "the generator was late: one request in a hundred went out {} or more after it could have; \
             the latencies contain that",
            format_time_us(ns as f64 / 1000.0)
        ),
        Limit::Steal(share) => format!(
            "the machine's host gave {:.1} % of its time to others during the run; the latencies contain that",
            share * 100.0
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(outcome: &Outcome) -> String {
        let mut out = Vec::new();
        print_notes(outcome, Asked::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_good_run_needs_no_words() {
        let mut outcome = Outcome::new(None);
        outcome.complete = 1;
        outcome.latencies[Class::Success as usize].corrected.record(1).unwrap();
        assert_eq!(notes(&outcome), "");
    }

    #[test]
    fn what_is_no_workload_cannot_be_filled() {
        let mut outcome = Outcome::new(None);
        outcome.complete = 1;
        outcome.latencies[Class::NotFound as usize].corrected.record(1).unwrap();
        let notes = |is_workload, wants_percentiles| {
            let mut out = Vec::new();
            print_notes(&outcome, Asked { is_workload, wants_percentiles }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(notes(true, false).contains("--fill") && !notes(false, false).contains("--fill"));
        assert!(notes(true, true).contains("closed loop") && !notes(true, false).contains("closed loop"));
    }

    #[test]
    fn what_limited_the_result_is_said_in_words() {
        let mut outcome = Outcome::new(Some(1.0));
        outcome.cpu_shares = vec![0.4, 0.99];
        outcome.lateness.record(5_000_000).unwrap();
        outcome.steal_share = Some(0.1);
        outcome.unanswered = 7;
        outcome.is_interrupted = true;
        outcome.latencies[Class::NotFound as usize].corrected.record_n(1_000_000, 3).unwrap();
        let text = notes(&outcome);
        for part in [
            "interrupted",
            "no request",
            "7 requests were due",
            "99 % of a core",
            "5.0",
            "10.0 %",
            "      404           3",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
