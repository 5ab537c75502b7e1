//! The report's file while runs are made.

use std::path::Path;

use crate::clock::Clock;
use crate::compare::{self, Profiles};
use crate::error::Outcome;
use crate::files;
use crate::page::{self, ComparedPage};
use crate::record::Report;

/// Of the time between two comparisons, the later one may take one part in so many: with many short runs, most of the time would be theirs.
const COMPARING_PARTS: u64 = 10;

/// Is written after every run, so that whatever ends them leaves what there is.
pub(super) struct ReportFile<'a> {
    path: &'a Path,
    clock: Clock,
    last: Option<Comparison>,
}

/// How long the last comparison took, and when it ended.
#[derive(Debug, Clone, Copy)]
struct Comparison {
    ended_ns: u64,
    took_ns: u64,
}

impl<'a> ReportFile<'a> {
    pub(super) fn new(path: &'a Path) -> Self {
        Self { path, clock: Clock::start(), last: None }
    }

    /// After a run. A page without a comparison is true as well; with an earlier one, it would not be.
    pub(super) fn write(&mut self, report: &Report) -> Outcome<()> {
        let began_ns = self.clock.now_ns();
        let mut compared = None;
        if may_compare(began_ns, self.last) {
            // Profiles are compared at the end, as that takes long.
            compared = compare::compare_servers(report, Profiles::NotYet);
            let ended_ns = self.clock.now_ns();
            self.last = Some(Comparison { ended_ns, took_ns: ended_ns - began_ns });
        }
        files::replace(self.path, page::render(report, compared.as_ref()))
    }

    /// After the last run, with the whole comparison, if there are two servers. After one that failed, without that of profiles:
    /// whoever waits is to hear soon why it failed.
    pub(super) fn complete(&self, report: &Report, has_failed: bool) -> Outcome<Option<ComparedPage>> {
        let profiles = if has_failed { Profiles::NotAfterFailure } else { Profiles::Compared };
        let compared = compare::compare_servers(report, profiles);
        if let Some(compared) = &compared {
            files::replace(self.path, page::render(report, Some(compared)))?;
        }
        Ok(compared)
    }
}

/// The next comparison takes about as long as the last one.
fn may_compare(now_ns: u64, last: Option<Comparison>) -> bool {
    last.is_none_or(|last| now_ns - last.ended_ns >= last.took_ns.saturating_mul(COMPARING_PARTS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::fixture;
    use crate::record::{Run, Subject};
    use crate::scratch::Scratch;

    fn report_of_two() -> Report {
        let mut report = fixture::report();
        let peer = Run { subject: "peer".to_owned(), ..report.runs[0].clone() };
        report.runs.push(peer);
        report.subjects.push(Subject { name: "peer".to_owned(), ..report.subjects[0].clone() });
        report
    }

    #[test]
    fn comparing_takes_little_of_the_time() {
        assert!(may_compare(0, None));
        let after = |took_ns, now_ns| may_compare(now_ns, Some(Comparison { ended_ns: 5_000, took_ns }));
        assert_eq!([5_000, 5_999, 6_000].map(|now| after(100, now)), [false, false, true]);
        assert!(after(0, 5_000));
    }

    /// Every run was followed by a comparison of all runs, however long that took.
    #[test]
    fn a_page_that_is_written_too_soon_has_no_comparison_until_the_end() {
        let report = report_of_two();
        let scratch = Scratch::new(&std::env::temp_dir(), 79).unwrap();
        let path = scratch.path().join("report.html");
        let mut file = ReportFile::new(&path);
        let has_comparison = || files::read_text(&path).unwrap().contains("The servers compared");
        file.write(&report).unwrap();
        assert!(has_comparison());
        file.last = Some(Comparison { ended_ns: 0, took_ns: u64::MAX });
        file.write(&report).unwrap();
        assert!(!has_comparison(), "an earlier one would be false");
        assert!(file.complete(&report, false).unwrap().is_some() && has_comparison());
    }

    /// The profiles of all rounds were compared before the error was told. Later, a campaign that had made all runs was said to have
    /// failed before.
    #[test]
    fn profiles_of_a_campaign_that_failed_are_not_compared() {
        let mut report = report_of_two();
        report.planned = report.runs.len();
        let scratch = Scratch::new(&std::env::temp_dir(), 82).unwrap();
        let path = scratch.path().join("report.html");
        let file = ReportFile::new(&path);
        let told = |has_failed| {
            let compared = file.complete(&report, has_failed).unwrap().unwrap();
            let profiles: usize = compared.runs.iter().map(|run| run.profiles.len()).sum();
            (
                profiles > 0,
                compared.remarks.iter().any(|remark| remark.ends_with("not told: the campaign failed.")),
            )
        };
        assert_eq!([told(false), told(true)], [(true, false), (false, true)]);
    }
}
