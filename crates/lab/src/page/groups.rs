//! Rounds of one stage on one server belong together: their middle and their spread are what a reader wants first.

use crate::record::{Latency, Report, Run};
use crate::stats::Due;

/// The rounds of a stage.
pub(super) struct Group<'a> {
    pub(super) title: String,
    /// With their numbers in the report.
    pub(super) runs: Vec<(usize, &'a Run)>,
}

/// The median of the rounds, and their range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

/// In the order in which they were first run.
pub(super) fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (number, run) in report.runs.iter().enumerate() {
        let is_same = |group: &&mut Group<'_>| {
            let (_, first) = group.runs[0];
            first.stage == run.stage && first.subject == run.subject
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.runs.push((number, run)),
            None => groups.push(Group { title: title(report, run), runs: vec![(number, run)] }),
        }
    }
    groups
}

/// The title of a stage, with the name of the server if there are several.
pub(super) fn title(report: &Report, run: &Run) -> String {
    if report.subjects.len() > 1 { format!("{}, {}", run.stage, run.subject) } else { run.stage.clone() }
}

impl Group<'_> {
    /// The rounds that say how it was: those that were cut off only if there is no other.
    fn telling(&self) -> impl Iterator<Item = (usize, &Run)> {
        let has_whole = self.runs.iter().any(|(_, run)| !run.is_interrupted);
        let runs = self.runs.iter().enumerate().map(|(index, (_, run))| (index, *run));
        runs.filter(move |(_, run)| !(has_whole && run.is_interrupted))
    }

    /// None if no round has it.
    pub(super) fn spread(&self, of: impl Fn(&Run) -> Option<f64>) -> Option<Spread> {
        let mut values: Vec<f64> = self.telling().filter_map(|(_, run)| of(run)).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median =
            if values.len() % 2 == 1 { values[middle] } else { values[middle - 1].midpoint(values[middle]) };
        Some(Spread { low, median, high })
    }

    pub(super) fn latency(&self, of: impl Fn(&Latency) -> f64) -> Option<Spread> {
        self.spread(|run| run.latency.as_ref().map(&of))
    }

    /// The most errors of any round, cut off or not.
    pub(super) fn most_errors(&self) -> Option<f64> {
        let shares = self.runs.iter().filter_map(|(_, run)| run.failures().share());
        shares.max_by(f64::total_cmp)
    }

    /// The share of requests that failed.
    pub(super) fn errors(&self) -> Option<Spread> {
        self.spread(|run| run.failures().share())
    }

    /// The round with the median p99: the one to look at first.
    pub(super) fn typical(&self) -> usize {
        let p99 = |run: &Run| run.latency.map_or(f64::MAX, |latency| latency.p99);
        let mut order: Vec<(usize, &Run)> = self.telling().collect();
        order.sort_by(|(_, a), (_, b)| p99(a).total_cmp(&p99(b)));
        order[(order.len() - 1) / 2].0
    }

    /// The part of the wanted rate that the median of the rounds answered, if the median did not reach it.
    pub(super) fn missed_rate(&self) -> Option<f64> {
        let kept = self.spread(|run| run.rate.map(|_| run.due().kept_share()))?.median;
        let reached = self.spread(|run| run.rate.map(|rate| run.per_second / rate))?.median;
        (!Due::is_reached(kept)).then_some(reached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;

    #[test]
    fn rounds_belong_together() {
        let mut report = fixture::report();
        for (round, scale) in [(2, 3.0), (3, 2.0), (4, 9.0)] {
            let mut run = Run { round, ..report.runs[0].clone() };
            run.latency = run.latency.map(|mut latency| {
                latency.p99 *= scale;
                latency
            });
            report.runs.push(run);
        }
        let groups = groups(&report);
        let numbers: Vec<Vec<usize>> =
            groups.iter().map(|group| group.runs.iter().map(|(number, _)| *number).collect()).collect();
        assert_eq!(numbers, [vec![0, 2, 3, 4], vec![1]]);
        let spread = groups[0].latency(|latency| latency.p99);
        assert_eq!(spread, Some(Spread { low: 900.0, median: 2250.0, high: 8100.0 }));
        assert_eq!(groups[0].typical(), 2, "900, 1,800, 2,700 and 8,100: the lower of the two in the middle");
        assert_eq!(groups[0].missed_rate(), Some(0.9));
        let on_their_way = Run { behind: Some(0), ..report.runs[0].clone() };
        let alone = Group { title: String::new(), runs: vec![(0, &on_their_way)] };
        assert_eq!(alone.missed_rate(), None, "what is on its way at the end is kept");
        assert_eq!((groups[1].latency(|latency| latency.p99), groups[1].errors()), (None, None));
    }

    #[test]
    fn what_was_cut_off_is_in_no_median_beside_whole_rounds() {
        let mut report = fixture::report();
        let mut cut = Run { round: 2, is_interrupted: true, ..report.runs[0].clone() };
        cut.per_second = 1.0;
        report.runs.push(cut);
        let per_second = report.runs[0].per_second;
        let of_whole = Spread { low: per_second, median: per_second, high: per_second };
        let all = groups(&report);
        assert_eq!((all[0].spread(|run| Some(run.per_second)), all[0].typical()), (Some(of_whole), 0));
        report.runs[2].lost = Some(1_000);
        let of_cut = report.runs[2].failures().share();
        assert!(of_cut > report.runs[0].failures().share());
        assert_eq!(groups(&report)[0].most_errors(), of_cut, "it is told all the same");
        report.runs[0].is_interrupted = true;
        let spread = groups(&report)[0].spread(|run| Some(run.per_second));
        assert_eq!(spread.map(|spread| (spread.low, spread.high)), Some((1.0, per_second)));
    }
}
