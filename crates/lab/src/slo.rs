//! Bounds that a run must hold: `p99<5ms,errors<0.1%`.

use std::fmt;

use hdrhistogram::Histogram;

use crate::record::JudgedBound;
use crate::stats::{Class, RunOutcome};

/// By so little of itself, a figure may differ from a limit that it has reached: 7 % is not quite 7 of 100.
const ROUNDING: f64 = 1e-9;

/// One or more bounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slo {
    bounds: Vec<Bound>,
}

#[derive(Debug, Clone, PartialEq)]
struct Bound {
    /// As it was typed.
    text: String,
    what: What,
    limit: f64,
    /// The limit itself holds too: `<=` or `>=`.
    is_inclusive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    /// A percentile of the corrected latency, in nanoseconds, of all requests that were due.
    Percentile(f64),
    Mean,
    Max,
    /// A share, from 0 to 1.
    Errors,
    /// Answers a second; a lower bound.
    Rate,
}

impl fmt::Display for JudgedBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}", self.bound, self.found)
    }
}

impl Slo {
    /// The error is one line about what is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let bounds = text.split(',').map(str::trim).map(Bound::parse).collect::<Result<_, _>>()?;
        Ok(Self { bounds })
    }

    /// Whether it asks for a number of answers a second.
    pub(crate) fn bounds_rate(&self) -> bool {
        self.bounds.iter().any(|bound| bound.what == What::Rate)
    }

    /// The bounds that the run broke.
    pub(crate) fn check(&self, outcome: &RunOutcome, misses_are_good: bool) -> Vec<JudgedBound> {
        self.judge(outcome, misses_are_good).into_iter().filter(|bound| !bound.holds).collect()
    }

    /// Every bound, with what the run found.
    pub(crate) fn judge(&self, outcome: &RunOutcome, misses_are_good: bool) -> Vec<JudgedBound> {
        self.bounds.iter().map(|bound| bound.judge(outcome, misses_are_good)).collect()
    }
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<&str> = self.bounds.iter().map(|bound| bound.text.as_str()).collect();
        f.write_str(&texts.join(","))
    }
}

impl Bound {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a bound such as p99<5ms, mean<1ms, max<1s, errors<0.1% or rate>10k");
        let (name, limit) = text.split_once(['<', '>']).ok_or_else(wrong)?;
        let (name, limit) = (name.trim(), limit.trim());
        let (limit, is_inclusive) = limit.strip_prefix('=').map_or((limit, false), |limit| (limit, true));
        let what = match name {
            "mean" => What::Mean,
            "max" => What::Max,
            "errors" => What::Errors,
            "rate" => What::Rate,
            _ => {
                let percentile = name.strip_prefix('p').and_then(|digits| digits.parse::<f64>().ok());
                What::Percentile(percentile.filter(|p| *p > 0.0 && *p <= 100.0).ok_or_else(wrong)?)
            }
        };
        if text.contains('>') != (what == What::Rate) {
            return Err(wrong());
        }
        let limit = match what {
            What::Percentile(_) | What::Mean | What::Max => scaled(limit, &TIMES),
            What::Errors => match scaled(limit, &SHARES) {
                // It would hold whatever happens, and was meant as something else.
                Some(share) if share > 1.0 || (share >= 1.0 && !limit.ends_with('%')) => {
                    let wanted = "a share of the requests, as in errors<0.1% or errors<0.001";
                    return Err(format!("`{text}` bounds nothing: expected {wanted}"));
                }
                share => share,
            },
            What::Rate => scaled(limit, &RATES),
        };
        Ok(Self { text: text.to_owned(), what, limit: limit.ok_or_else(wrong)?, is_inclusive })
    }

    fn judge(&self, outcome: &RunOutcome, misses_are_good: bool) -> JudgedBound {
        let (found, shown) = match self.what {
            What::Percentile(p) => latency(outcome, |latencies| latencies.value_at_percentile(p) as f64),
            What::Mean => latency(outcome, Histogram::mean),
            What::Max => latency(outcome, |latencies| latencies.max() as f64),
            What::Errors => {
                let share = outcome.failures(misses_are_good).share().unwrap_or(1.0);
                (share, format!("{:.3}%{}", share * 100.0, unanswered(outcome.lost())))
            }
            What::Rate => (outcome.per_second(), format!("{:.0}/s", outcome.per_second())),
        };
        let is_latency = !matches!(self.what, What::Errors | What::Rate);
        if is_latency && outcome.answered().corrected.is_empty() {
            return self.judged("no answer at all".to_owned(), false);
        }
        let holds = if self.what == What::Rate { found > self.limit } else { found < self.limit };
        let holds = holds || (self.is_inclusive && (found - self.limit).abs() <= ROUNDING * self.limit);
        // A run without any error holds `errors<0%` too: nobody means a bound that cannot be held.
        let holds = holds || (self.what == What::Errors && found == 0.0);
        self.judged(shown, holds)
    }

    fn judged(&self, found: String, holds: bool) -> JudgedBound {
        JudgedBound { bound: self.text.clone(), found, holds }
    }
}

/// Requests that were due and have no answer make a latency worse, and never better: how long they would have taken is not
/// known. It is so with those whose connection broke, too.
fn latency(outcome: &RunOutcome, of: impl Fn(&Histogram<u64>) -> f64) -> (f64, String) {
    let (answered, due) = (of(&outcome.all().corrected), of(&outcome.all_that_was_due()));
    let without_answer = outcome.left.waited.len() + outcome.count(Class::Broken);
    let note = if due > answered { unanswered(without_answer) } else { String::new() };
    let ns = answered.max(due);
    (ns, format!("{}{note}", crate::units::format_time_us(ns / 1000.0)))
}

/// Said where a figure is not that of the answers alone, which stand above it.
fn unanswered(count: u64) -> String {
    if count == 0 { String::new() } else { format!(" (due and unanswered: {count})") }
}

const TIMES: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
const SHARES: [(&str, f64); 2] = [("%", 0.01), ("", 1.0)];
const RATES: [(&str, f64); 4] = [("k", 1e3), ("M", 1e6), ("/s", 1.0), ("", 1.0)];

/// A number with one of these units; a number that is no finite positive one is none.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (unit, scale) = units.iter().find(|(unit, _)| text.ends_with(unit))?;
    let number: f64 = text[..text.len() - unit.len()].trim().parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Method;

    fn outcome() -> RunOutcome {
        let mut outcome = RunOutcome::new(Some(1000.0));
        outcome.elapsed_ns = 1_000_000_000;
        outcome.complete = 1000;
        let good = &mut outcome.latencies.at(Class::Success, Method::Get).corrected;
        good.record_n(1_000_000, 980).unwrap();
        good.record_n(9_000_000, 10).unwrap();
        outcome.latencies.at(Class::NOT_FOUND, Method::Get).corrected.record_n(1_000_000, 10).unwrap();
        outcome
    }

    #[test]
    fn bounds_that_broke_are_named_with_what_was_found() {
        let slo = Slo::parse("p99<2ms, p99.9<5ms,errors<0.5%,max<10ms,rate>900,mean<1.5ms").unwrap();
        let broken: Vec<String> = slo.check(&outcome(), false).iter().map(ToString::to_string).collect();
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken[0].starts_with("p99.9<5ms: found 9.0"), "{broken:?}");
        assert_eq!(broken[1], "errors<0.5%: found 1.000%");
        let broken = slo.check(&outcome(), true);
        assert_eq!(broken.len(), 1, "a miss is good where that was asked for: {broken:?}");
    }

    /// The `=` was read over: 1 % of errors missed `errors<=1%`.
    #[test]
    fn what_may_be_equal_holds_at_its_limit() {
        let judged = |text: &str| Slo::parse(text).unwrap().judge(&outcome(), false)[0].holds;
        for (bound, limit) in [("errors<=", "1%"), ("rate>=", "1000"), ("rate>=", "1k")] {
            assert!(judged(&format!("{bound}{limit}")), "{bound}{limit}");
            let strict = bound.trim_end_matches('=');
            assert!(!judged(&format!("{strict}{limit}")), "{strict}{limit}");
        }
        let mut seven = outcome();
        seven.latencies.at(Class::NOT_FOUND, Method::Get).corrected.record_n(1_000_000, 60).unwrap();
        seven.latencies.at(Class::Success, Method::Get).corrected.reset();
        seven.latencies.at(Class::Success, Method::Get).corrected.record_n(1_000_000, 930).unwrap();
        assert!(Slo::parse("errors<=7%").unwrap().check(&seven, false).is_empty());
        assert!(!judged("errors<=0.9%") && !judged("rate>=1001") && judged("errors <= 1.1 %"));
    }

    #[test]
    fn a_run_without_answers_holds_nothing() {
        let slo = Slo::parse("p50<1s,errors<1%").unwrap();
        assert_eq!(slo.check(&RunOutcome::new(None), false).len(), 2);
    }

    const MS: u64 = 1_000_000;

    /// It answered 595 requests within 9 ms, and nothing from then on.
    #[test]
    fn a_server_that_froze_misses_what_it_kept_until_then() {
        let slo = Slo::parse("p50<5ms,p99<5ms,max<20ms,errors<1%").unwrap();
        let mut outcome = outcome();
        assert!(slo.check(&outcome, true).is_empty());
        outcome.left.waited_for_turns(0..2_400, |turn| (2_400 - turn) * MS);
        outcome.left.owed(2_400 * MS, 2_400);
        let broken: Vec<String> = slo.check(&outcome, true).iter().map(ToString::to_string).collect();
        assert_eq!(broken.len(), 4, "{broken:?}");
        assert!(broken[1].starts_with("p99<5ms: found 2.3"), "{broken:?}");
        assert_eq!(broken[3], "errors<1%: found 70.588% (due and unanswered: 2400)");
    }

    /// A server that broke three of four connections at once was four times as fast.
    #[test]
    fn what_breaks_makes_no_latency_better() {
        let slo = Slo::parse("p50<5ms,mean<5ms").unwrap();
        let mut outcome = RunOutcome::new(Some(1000.0));
        let latencies = |outcome: &mut RunOutcome, class, ms, count| {
            outcome.latencies.at(class, Method::Get).corrected.record_n(ms * MS, count).unwrap();
        };
        latencies(&mut outcome, Class::Success, 9, 100);
        latencies(&mut outcome, Class::Broken, 1, 300);
        let broken: Vec<String> = slo.check(&outcome, true).iter().map(ToString::to_string).collect();
        assert_eq!(broken.len(), 2, "{broken:?}");
        assert!(broken[0].starts_with("p50<5ms: found 9.0") && broken[0].ends_with("ms"), "{broken:?}");
        // Those that were waited for before they broke make it worse.
        latencies(&mut outcome, Class::Broken, 20, 600);
        let broken: Vec<String> = slo.check(&outcome, true).iter().map(ToString::to_string).collect();
        assert!(broken[0].starts_with("p50<5ms: found 20.0"), "{broken:?}");
        assert!(broken[0].ends_with("(due and unanswered: 900)"), "{broken:?}");
    }

    #[test]
    fn without_an_answer_no_latency_holds() {
        let slo = Slo::parse("p50<5s,max<3600s").unwrap();
        for class in [Class::Broken, Class::TimedOut] {
            let mut outcome = RunOutcome::new(None);
            outcome.latencies.at(class, Method::Get).corrected.record_n(MS, 9).unwrap();
            let broken: Vec<String> = slo.check(&outcome, true).iter().map(ToString::to_string).collect();
            assert_eq!(broken.len(), 2, "{class}: {broken:?}");
            assert_eq!(broken[0], "p50<5s: found no answer at all");
        }
    }

    #[test]
    fn a_request_on_its_way_at_the_end_changes_no_verdict() {
        let slo = Slo::parse("p95<10ms,max<10ms,mean<1.2ms,errors<0%").unwrap();
        let mut outcome = outcome();
        for latencies in [Class::Success, Class::NOT_FOUND] {
            outcome.latencies.at(latencies, Method::Get).uncorrected.record(9 * MS).unwrap();
        }
        let found = |outcome: &RunOutcome| slo.judge(outcome, true);
        let before = found(&outcome);
        outcome.left.waited_for(3 * MS, 1);
        outcome.left.owed(3 * MS, 1);
        assert!(slo.check(&outcome, true).is_empty());
        assert_eq!(
            (found(&outcome)[0].clone(), found(&outcome)[3].clone()),
            (before[0].clone(), before[3].clone())
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "p99",
            "p99<",
            "p99<==5ms",
            "p99<5",
            "p101<5ms",
            "x<5ms",
            "errors<-1%",
            "rate<5",
            "p99>5ms",
            "p99<5ms,",
            "p0<5ms",
        ] {
            assert!(Slo::parse(text).is_err(), "{text}");
        }
        for text in ["errors<5", "errors<1", "errors<200%"] {
            assert!(Slo::parse(text).is_err_and(|reason| reason.contains("errors<0.1%")), "{text}");
        }
        assert!(Slo::parse("errors<100%,errors<0.5,errors<0,p100<1s").is_ok());
    }
}
