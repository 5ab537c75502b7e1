//! What wrk's text has no place for, in words. It goes to standard error, so that scripts around wrk's text still work.

use std::io::{self, Write};

use crate::stats::{Class, Due, Latencies, Limit, RunOutcome};
use crate::units::{counted, format_metric, format_time_us};

/// What was asked for, as far as a note depends on it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// A built-in workload, which `--fill` can write first.
    pub(crate) is_workload: bool,
    /// Whether it was.
    pub(crate) is_filled: bool,
    pub(crate) wants_percentiles: bool,
}

/// A part of the answers that is not worth a note: of a workload, and of anything else.
const MISSES_MAX: f64 = 0.01;
const OTHER_MISSES_MAX: f64 = 0.5;

/// Which part of the answers were `404`.
pub(crate) fn misses_share(outcome: &RunOutcome) -> f64 {
    outcome.count(Class::NOT_FOUND) as f64 / outcome.complete.max(1) as f64
}

/// Says that so many answers were `404`, if they are many.
pub(crate) fn misses_in_words(share: f64, asked: Asked) -> Option<String> {
    let remedy = if asked.is_workload && !asked.is_filled { "; --fill writes all keys first" } else { "" };
    let share_max = if asked.is_workload { MISSES_MAX } else { OTHER_MISSES_MAX };
    // Not all, if some were there.
    let percent = if share < 1.0 { (share * 100.0).min(99.0) } else { 100.0 };
    (share > share_max)
        .then(|| format!("{percent:.0} % of the answers were 404: those requests read nothing{remedy}"))
}

pub(crate) fn print_notes(outcome: &RunOutcome, asked: Asked, out: &mut dyn Write) -> io::Result<()> {
    if outcome.is_interrupted {
        writeln!(out, "note: interrupted; these are the results up to then")?;
    }
    if outcome.threads_given_up > 0 {
        let threads = counted(outcome.threads_given_up as u64, "thread");
        writeln!(out, "note: {threads} did not return from the script, so `done` was not called")?;
    }
    if outcome.complete == 0 {
        writeln!(out, "note: no request was answered")?;
    }
    if let (failed @ 1.., Some(why)) = (outcome.errors.connect, &outcome.connect_error) {
        let failed = counted(failed, "attempt");
        writeln!(out, "note: {failed} to connect failed, the last one with: {why}")?;
    }
    if let (failed @ 1.., Some(why)) = (outcome.errors.read, &outcome.read_error) {
        let failed = counted(failed, "read");
        writeln!(out, "note: {failed} failed, the last one with: {why}")?;
    }
    // A closed loop owes nothing, and yet may have lost what was on its way.
    let (unanswered, lost) = (outcome.unanswered.max(outcome.lost()), outcome.lost());
    if unanswered > 0 {
        let (was, them) = if unanswered == 1 { ("was", "it") } else { ("were", "them") };
        writeln!(
            out,
            "note: {} {was} due by the end and had no answer; no percentile contains {them}; --slo counts the time without one, \
             and {lost} as errors",
            counted(unanswered, "request")
        )?;
    }
    print_classes(outcome, out)?;
    print_methods(outcome, out)?;
    if let Some(misses) = misses_in_words(misses_share(outcome), asked) {
        writeln!(out, "note: {misses}")?;
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
    if let Some(rate) = missed_rate(outcome) {
        let [asked, answered] = [rate, outcome.per_second()].map(format_metric);
        let why = why_missed(outcome, rate);
        writeln!(
            out,
            "note: the rate was not reached: {asked}/s were asked for, {answered}/s answered; {why}"
        )?;
    }
    let whole = || outcome.seconds.iter().filter(|second| second.is_whole());
    let idle = whole().filter(|second| second.completed == 0).count();
    if idle > 0 && outcome.complete > 0 {
        writeln!(out, "note: in {idle} of {} seconds nothing completed", whole().count())?;
    }
    Ok(())
}

/// The rate that was asked for, if it was not reached.
fn missed_rate(outcome: &RunOutcome) -> Option<f64> {
    let is_missed = !Due::is_reached(outcome.due().kept_share());
    outcome.rate.filter(|_| is_missed && outcome.complete > 0 && !outcome.is_interrupted)
}

/// What held the rate up. A server that is gone comes first: the generator may have been late as well, and that is not why.
fn why_missed(outcome: &RunOutcome, rate: f64) -> &'static str {
    let due = outcome.due();
    let is_generator = |limit: &Limit| match limit {
        Limit::Cpu(_) => true,
        // Whoever is late by so much is behind with so many, and not with more.
        Limit::Late(ns) => *ns as f64 / 1e9 * rate >= due.behind as f64,
        Limit::Steal(_) => false,
    };
    if outcome.errors.connect > 0 {
        "connections could not be made, as said above"
    } else if due.failed > due.behind {
        "requests timed out, or their connections broke, as said above"
    } else if outcome.limits().iter().any(is_generator) {
        "the generator was the limit, as said above"
    } else {
        "the connections were waiting, for answers or in delay() of a script: that was the limit, or their number (-c)"
    }
}

/// Answers by class, if there are any but successful ones.
fn print_classes(outcome: &RunOutcome, out: &mut dyn Write) -> io::Result<()> {
    let found = outcome.latencies.classes();
    if found.iter().all(|class| *class == Class::Success) {
        return Ok(());
    }
    let rows =
        found.iter().map(|class| (class.to_string(), outcome.count(*class), outcome.latencies.of(*class)));
    print_table("answer", rows, out)
}

/// Requests by method, if there are several: a mean of reads and writes is the latency of neither.
fn print_methods(outcome: &RunOutcome, out: &mut dyn Write) -> io::Result<()> {
    let found = outcome.latencies.methods();
    if found.len() < 2 {
        return Ok(());
    }
    let answers = &outcome.latencies;
    let rows = found.iter().map(|method| {
        (method.name().to_owned(), answers.count_of_method(*method), answers.of_method(*method))
    });
    print_table("request", rows, out)
}

fn print_table(
    head: &str,
    rows: impl Iterator<Item = (String, u64, Latencies)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{head:>9}{:>12}{:>11}{:>11}{:>11}{:>11}", "count", "p50", "p99", "p99.9", "max")?;
    for (name, count, latencies) in rows {
        let latencies = latencies.corrected;
        let at = |percentile| {
            if latencies.is_empty() {
                return "-".to_owned(); // With -B only the last answer of a batch has one, and what broke has none.
            }
            format_time_us(latencies.value_at_percentile(percentile) as f64 / 1000.0)
        };
        let columns = [50.0, 99.0, 99.9, 100.0].map(|p| format!("{:>11}", at(p))).concat();
        writeln!(out, "{name:>9}{count:>12}{columns}")?;
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
    use crate::http::Method;
    use crate::stats::{ConnectionError, SECOND_NS, Second};

    fn notes(outcome: &RunOutcome) -> String {
        let mut out = Vec::new();
        print_notes(outcome, Asked::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_good_run_needs_no_words() {
        let mut outcome = RunOutcome::new(None);
        outcome.complete = 1;
        outcome.latencies.at(Class::Success, Method::Get).corrected.record(1).unwrap();
        assert_eq!(notes(&outcome), "");
    }

    /// The rest of a second at the end of a run was told as one in which nothing completed.
    #[test]
    fn a_second_that_the_end_cuts_off_is_no_silent_one() {
        let mut outcome = RunOutcome::new(None);
        outcome.complete = 5;
        let second = |number, completed, length_ns| {
            let (errors_by_kind, percentiles_ns) = ([0, 0, 1], None);
            Second { number, length_ns, completed, errors: 1, errors_by_kind, percentiles_ns }
        };
        outcome.seconds = vec![second(0, 5, SECOND_NS), second(1, 0, SECOND_NS), second(2, 0, SECOND_NS / 2)];
        let text = notes(&outcome);
        assert!(text.contains("in 1 of 2 seconds nothing completed"), "{text}");
    }

    #[test]
    fn what_is_no_workload_cannot_be_filled() {
        let mut outcome = RunOutcome::new(None);
        outcome.complete = 1;
        outcome.latencies.at(Class::NOT_FOUND, Method::Get).corrected.record(1).unwrap();
        let notes = |is_workload, wants_percentiles| {
            let mut out = Vec::new();
            let asked = Asked { is_workload, is_filled: false, wants_percentiles };
            print_notes(&outcome, asked, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(notes(true, false).contains("--fill") && !notes(false, false).contains("--fill"));
        assert!(notes(true, true).contains("closed loop") && !notes(true, false).contains("closed loop"));
    }

    #[test]
    fn a_workload_that_misses_some_keys_says_so() {
        let workload = Asked { is_workload: true, ..Asked::default() };
        assert_eq!(misses_in_words(0.01, workload), None);
        let told = misses_in_words(0.02, workload).unwrap();
        assert_eq!(
            told,
            "2 % of the answers were 404: those requests read nothing; --fill writes all keys first"
        );
        let filled = misses_in_words(0.02, Asked { is_filled: true, ..workload }).unwrap();
        assert!(filled.starts_with("2 % of") && !filled.contains("--fill"), "{filled}");
        assert_eq!(misses_in_words(0.02, Asked::default()), None);
    }

    #[test]
    fn requests_are_told_apart_by_their_method() {
        let mut outcome = RunOutcome::new(None);
        outcome.complete = 2;
        outcome.latencies.at(Class::Success, Method::Get).corrected.record(1_000_000).unwrap();
        outcome.latencies.at(Class::Success, Method::Put).corrected.record(9_000_000).unwrap();
        let text = notes(&outcome);
        assert!(text.contains("      GET           1     1.00ms"), "{text}");
        assert!(text.contains("      PUT           1     9.0"), "{text}");
    }

    #[test]
    fn a_rate_that_was_not_reached_is_said_with_what_held_it_up() {
        let mut outcome = RunOutcome::new(Some(1e8));
        (outcome.complete, outcome.elapsed_ns, outcome.unanswered) = (60_000, 1_000_000_000, 99_940_000);
        outcome.latencies.at(Class::Success, Method::Get).corrected.record(1_000_000).unwrap();
        let text = notes(&outcome);
        assert!(
            text.contains(
                "100.00M/s were asked for, 60.00k/s answered; the connections were waiting, for answers or"
            ),
            "{text}"
        );
        // By 5 ms it was late, which is half a million requests.
        outcome.lateness.record(5_000_000).unwrap();
        assert!(notes(&outcome).contains("answered; the connections were waiting"));
        outcome.lateness.record_n(1_000_000_000, 999).unwrap();
        assert!(notes(&outcome).contains("answered; the generator was the limit"));
        outcome.errors.connect = 3;
        assert!(notes(&outcome).contains("answered; connections could not be made"), "the server was gone");
        outcome.errors.connect = 0;
        (outcome.lateness, outcome.cpu_shares) = (RunOutcome::new(None).lateness, vec![0.99]);
        assert!(notes(&outcome).contains("answered; the generator was the limit"));
        outcome.unanswered = 3;
        assert!(!notes(&outcome).contains("not reached"));
    }

    /// A server without a queue was said to have one: answers take 150 ms, and so many were on their way.
    #[test]
    fn a_rate_that_is_answered_late_is_reached() {
        let mut outcome = RunOutcome::new(Some(800.0));
        (outcome.complete, outcome.elapsed_ns, outcome.unanswered) = (2_280, 3_000_000_000, 120);
        let latencies = outcome.latencies.at(Class::Success, Method::Get);
        latencies.corrected.record_n(150_000_000, 2_280).unwrap();
        latencies.uncorrected.record_n(150_000_000, 2_280).unwrap();
        outcome.left.waited_for_turns(0..120, |turn| (120 - turn) * 1_250_000);
        assert!(!notes(&outcome).contains("not reached"), "{}", notes(&outcome));
    }

    #[test]
    fn what_limited_the_result_is_said_in_words() {
        let mut outcome = RunOutcome::new(Some(1.0));
        outcome.cpu_shares = vec![0.4, 0.99];
        outcome.lateness.record(5_000_000).unwrap();
        outcome.steal_share = Some(0.1);
        outcome.unanswered = 7;
        (outcome.errors.connect, outcome.connect_error) = (3, Some(rustix::io::Errno::MFILE.into()));
        (outcome.errors.read, outcome.read_error) = (1, Some(ConnectionError::Closed));
        outcome.left.owed(1_000_000_000, 6);
        outcome.is_interrupted = true;
        outcome.latencies.at(Class::NOT_FOUND, Method::Get).corrected.record_n(1_000_000, 3).unwrap();
        let text = notes(&outcome);
        for part in [
            "interrupted",
            "no request",
            "7 requests were due",
            "3 attempts to connect failed, the last one with: Too many open files",
            "1 read failed, the last one with: the server closed the connection",
            "and 6 as errors",
            "99 % of a core",
            "5.0",
            "10.0 %",
            "      404           3",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
