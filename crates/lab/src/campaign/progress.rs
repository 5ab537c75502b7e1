//! The progress of a measurement: one line a run on standard error, and notes. Its result is printed on standard output.

use std::process::ExitCode;

use crate::error::LabError;
use crate::output::stderr_line;
use crate::page::count;
use crate::record::{KindProfile, Profiled, Run};
use crate::units::{format_metric, format_time_us};

/// The remaining time, estimated from the runs so far.
pub(super) struct Progress {
    all: usize,
    done: usize,
    /// The length of all runs together, without the time between them.
    run_ms: u64,
    done_run_ms: u64,
}

impl Progress {
    /// For runs of these lengths.
    pub(super) fn new(durations_ms: impl Iterator<Item = u64> + Clone) -> Self {
        Self { all: durations_ms.clone().count(), done: 0, run_ms: durations_ms.sum(), done_run_ms: 0 }
    }

    pub(super) fn done(&mut self, duration_ms: u64) {
        self.done += 1;
        self.done_run_ms += duration_ms;
    }

    /// `[3/8] put at 1,000/s, about 50 s left`
    pub(super) fn line(&self, title: &str, elapsed_ms: u64) -> String {
        let left_run_ms = self.run_ms - self.done_run_ms;
        // The time between runs is expected to stay as it was so far.
        let part = if self.done_run_ms == 0 { 1.1 } else { elapsed_ms as f64 / self.done_run_ms as f64 };
        let left = left_run_ms as f64 * part.max(1.0) / 1000.0;
        format!("[{}/{}] {title}, about {} left", self.done + 1, self.all, time(left))
    }
}

fn time(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

/// Says why it ends, and with which code.
pub(super) fn failure(error: &LabError) -> ExitCode {
    stderr_line(format_args!("ladoga lab: {error}"));
    ExitCode::from(error.exit_code())
}

/// The names of the columns of [`row`].
pub(super) fn head() -> String {
    format!(
        "{:<52}{:>12}{:>11}{:>11}{:>11}{:>11}{:>9}{:>9}",
        "run", "answered/s", "p50", "p99", "p99.9", "max", "errors", "CPU us"
    )
}

pub(super) fn row(title: &str, run: &Run) -> String {
    let latency = |of: fn(&crate::record::Latency) -> f64| {
        run.latency.map_or_else(|| "-".to_owned(), |latency| format_time_us(of(&latency)))
    };
    let cpu = run.node.cpu_us_per_request.map_or_else(|| "-".to_owned(), |cpu| format!("{cpu:.2}"));
    format!(
        "{title:<52}{:>12}{:>11}{:>11}{:>11}{:>11}{:>9}{cpu:>9}",
        format_metric(run.per_second),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        latency(|latency| latency.p999),
        latency(|latency| latency.max),
        run.failures().failed,
    )
}

/// What a report will lack, and what disturbed it.
pub(super) fn notes(run: &Run, cores: usize) -> Vec<String> {
    let reason = |profile: &KindProfile| match &profile.found {
        Profiled::Missing(reason) => Some(format!("no flame graph: {reason}")),
        Profiled::Samples { .. } => None,
    };
    let profiles = run.profiles.iter().filter_map(reason);
    let others = run.disturbance.notable_other_cores(cores);
    let others =
        others.map(|busy| format!("other processes used {busy:.1} of {cores} cores during this run"));
    let short = run.missed_rate().map(|rate| {
        let [asked, reached] = [rate, run.per_second].map(count);
        format!("the rate was not reached: {asked}/s asked for, {reached}/s answered")
    });
    run.node.missing.iter().cloned().chain(profiles).chain(others).chain(short).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::record::Disturbance;

    /// A run with other processes that did little was told as disturbed by them if its host took time.
    #[test]
    fn what_the_host_took_is_not_of_other_processes() {
        let mut run = fixture::report().runs.remove(0);
        run.disturbance = Disturbance { other_cores: Some(0.01), steal_share: Some(0.05) };
        let found = notes(&run, 2);
        assert!(found.iter().all(|note| !note.contains("other processes")), "{found:?}");
        run.disturbance.other_cores = Some(0.5);
        assert_eq!(notes(&run, 2)[0], "other processes used 0.5 of 2 cores during this run");
    }

    #[test]
    fn the_time_left_follows_what_it_took_so_far() {
        let mut progress = Progress::new([10_000; 4].into_iter());
        assert_eq!(progress.line("a", 0), "[1/4] a, about 44 s left");
        progress.done(10_000);
        assert_eq!(progress.line("b", 20_000), "[2/4] b, about 60 s left");
        progress.done(10_000);
        assert_eq!(progress.line("c", 200_000), "[3/4] c, about 4 min left");
    }
}
