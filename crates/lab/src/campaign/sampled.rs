//! What a sampler found, until it is known when the run began and ended.

use crate::record::NodeSeries;

/// The samples, and how often `/metrics` was asked for them.
pub(super) struct Sampled {
    pub(super) series: NodeSeries,
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
        Self { series, scrapes: Vec::new() }
    }

    /// The samples of the run, with notes about what happened while `/metrics` did not answer: an answer tells what has happened since
    /// the one before it, so nobody tells what was before the first one, and after the last one within the run.
    pub(super) fn of_run(mut self, began_s: f64, elapsed_s: f64) -> NodeSeries {
        self.series.cut(began_s, elapsed_s);
        let ended_s = began_s + elapsed_s;
        self.scrapes.retain(|scrape| scrape.asked_s <= ended_s);
        let has_answer = |scrape: &ScrapeAttempt| scrape.found.as_ref().is_ok_and(|at_s| *at_s <= ended_s);
        let first = self.scrapes.iter().position(has_answer);
        let last = self.scrapes.iter().rposition(has_answer);
        let all = self.scrapes.len();
        let Some((first, last)) = first.zip(last) else {
            let failure = failures(&self.scrapes).map(|(_, why)| format!("flushes and compactions: {why}"));
            self.series.missing.extend(failure);
            return self.series;
        };
        let parts = [
            (&self.scrapes[..first], " before the first answer,", ""),
            (&self.scrapes[first..last], "", " (the next answer has them)"),
            (&self.scrapes[last..], " after the last answer,", ""),
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
