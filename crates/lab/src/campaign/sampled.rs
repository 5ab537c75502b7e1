//! What a sampler found, until it is known when the run began and ended.

use std::time::Duration;

use crate::record::NodeSeries;

/// How often they are taken.
pub(super) const EVERY: Duration = Duration::from_millis(500);

/// A first answer that comes later than this lacks something worth a note.
const LATE_S: f64 = 0.5;

/// The samples, and how often `/metrics` was asked for them.
pub(super) struct Sampled {
    pub(super) series: NodeSeries,
    /// When the run began: samples are taken from before that on.
    pub(super) began_s: f64,
    /// None if its answers do not have what is asked for.
    pub(super) scrapes: Vec<ScrapeAttempt>,
}

/// `/metrics` was asked.
pub(super) struct ScrapeAttempt {
    pub(super) asked_s: f64,
    /// When it answered, or why it did not.
    pub(super) found: Result<f64, String>,
}

impl Sampled {
    pub(super) fn of(series: NodeSeries) -> Self {
        Self { series, began_s: 0.0, scrapes: Vec::new() }
    }

    /// The samples of the run, with notes about what happened while `/metrics` did not answer: an answer tells what has happened since
    /// the one before it, so nobody tells what was before the first one, and after the last one within the run.
    pub(super) fn of_run(mut self, elapsed_s: f64) -> NodeSeries {
        let (began_s, ended_s) = (self.began_s, self.began_s + elapsed_s);
        self.series.cut(began_s, elapsed_s);
        self.scrapes.retain(|scrape| scrape.asked_s <= ended_s);
        for scrape in &mut self.scrapes {
            if scrape.found.as_ref().is_ok_and(|at_s| *at_s > ended_s) {
                scrape.found = Err("GET /metrics was answered after the end of the run".to_owned());
            }
        }
        // What the last answer from before the run tells is what the run begins with.
        let is_before = |scrape: &ScrapeAttempt| scrape.found.as_ref().is_ok_and(|at_s| *at_s <= began_s);
        let base = self.scrapes.iter().rposition(is_before).unwrap_or(0);
        self.scrapes.drain(..base);
        let has_answer = |scrape: &ScrapeAttempt| scrape.found.is_ok();
        let first = self.scrapes.iter().position(has_answer);
        let last = self.scrapes.iter().rposition(has_answer);
        let all = self.scrapes.len();
        let Some((first, last)) = first.zip(last) else {
            let failure = failures(&self.scrapes).map(|(_, why)| format!("flushes and compactions: {why}"));
            self.series.missing.extend(failure);
            return self.series;
        };
        // Who is asked at the beginning and takes a while has no answer before, either.
        let first_s = self.scrapes[first].found.as_ref().map_or(0.0, |at_s| at_s - began_s);
        if first == 0 && first_s > LATE_S {
            self.series.missing.push(format!(
                "flushes and compactions of the first {first_s:.1} s: GET /metrics was not answered before"
            ));
        }
        // There may be so much behind the last one of any run, as most of the time between two answers nobody asks.
        let last_s = self.scrapes[last].found.as_ref().map_or(0.0, |at_s| ended_s - at_s);
        let after = if last_s > EVERY.as_secs_f64() + LATE_S { &self.scrapes[last..] } else { &[] };
        let parts = [
            (&self.scrapes[..first], " before the first answer,", ""),
            (&self.scrapes[first..last], "", " (the next answer has them)"),
            (after, " after the last answer,", ""),
        ];
        self.series.missing.extend(parts.into_iter().filter_map(|(scrapes, which, remark)| {
            let (failed, why) = failures(scrapes)?;
            Some(format!("flushes and compactions{which} at {failed} of {all} times{remark}: {why}"))
        }));
        self.series
    }
}

/// How many there are, and why the last one failed; nothing if none has.
fn failures(scrapes: &[ScrapeAttempt]) -> Option<(usize, &str)> {
    let all = || scrapes.iter().filter_map(|scrape| scrape.found.as_ref().err());
    Some((all().count(), all().next_back()?))
}
