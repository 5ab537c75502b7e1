//! Whether a target is reached, and by how much it is missed.

use super::targets::{Bound, Cell, Target};
use crate::report::{Published, Series, grouped};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    Holds,
    /// By which share of the target.
    Short(f64),
    /// Answers were wrong, so that the figures count for nothing.
    Void(String),
    /// Why there is no figure.
    Unknown(String),
    /// There is no number to hold it against.
    NoBound,
}

/// A target, and what was found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub(super) target: Target,
    pub(super) verdict: Verdict,
    /// Empty if nothing was.
    pub(super) measured: Series,
}

/// `latest` has at most one contest of a name and part.
pub(super) fn judge(target: Target, latest: &[&Published]) -> Judged {
    let find = |cell: &Cell| {
        latest.iter().copied().find(|one| (one.id.as_str(), one.part.as_str()) == (cell.id, cell.part))
    };
    let cells: Vec<&Cell> = [&target.ours].into_iter().chain(&target.per).collect();
    let judged = |verdict, measured| Judged { target, verdict, measured };
    let mut series = Vec::new();
    for cell in &cells {
        let found = find(cell).and_then(|contest| contest.series(cell.subject, cell.figure));
        match found {
            Some(found) => series.push(found),
            None => return judged(Verdict::Unknown(missing(cell, find(cell))), Series::default()),
        }
    }
    let measured = match series[..] {
        [ours, per] => ours.ratio_to(per),
        _ => series[0].clone(),
    };
    let Some(median) = measured.median() else {
        return judged(Verdict::Unknown("no round has both figures".to_owned()), measured);
    };
    if let Some(reason) = cells.iter().find_map(|cell| find(cell)?.why_void(cell.subject)) {
        return judged(Verdict::Void(reason), measured);
    }
    judged(against(median, target.bound), measured)
}

fn against(median: f64, bound: Bound) -> Verdict {
    let missed_by = match bound {
        Bound::AtLeast(least) => (least - median) / least,
        Bound::AtMost(most) => (median - most) / most,
        Bound::None => return Verdict::NoBound,
    };
    if missed_by > 0.0 { Verdict::Short(missed_by) } else { Verdict::Holds }
}

fn missing(cell: &Cell, contest: Option<&Published>) -> String {
    let Some(contest) = contest else { return "not measured".to_owned() };
    if contest.row(cell.subject).is_some() {
        return "no round has a value".to_owned();
    }
    format!("{} was not measured", cell.subject)
}

impl Judged {
    /// `holds`, `short by 8 %`, or why neither can be said.
    pub(super) fn words(&self) -> String {
        match &self.verdict {
            Verdict::Holds => "holds".to_owned(),
            // Only what has an upper bound.
            Verdict::Short(share) if *share >= 1.0 => {
                format!("short: {} times the bound", grouped(1.0 + share, 1))
            }
            Verdict::Short(share) => format!("short by {}", percent(*share)),
            Verdict::Void(reason) => format!("counts for nothing: {reason}"),
            Verdict::Unknown(reason) => reason.clone(),
            Verdict::NoBound => "no target in numbers".to_owned(),
        }
    }

    /// The style's class.
    pub(super) fn class(&self) -> &'static str {
        match self.verdict {
            Verdict::Holds => "good",
            Verdict::Short(_) | Verdict::Void(_) => "bad",
            Verdict::Unknown(_) | Verdict::NoBound => "",
        }
    }

    /// `≥ 1.2 ×`
    pub(super) fn bound(&self) -> String {
        let (sign, bound) = match self.target.bound {
            Bound::AtLeast(bound) => ("≥", bound),
            Bound::AtMost(bound) => ("≤", bound),
            Bound::None => return "–".to_owned(),
        };
        // As many digits as the bound itself has, and no more than the figure.
        let digits = grouped(bound, self.target.decimals);
        let digits =
            if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { &digits };
        format!("{sign} {digits}{}", self.target.unit)
    }
}

/// `0.4 %`, `8 %`: never zero for what is missed.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        ..0.1 => "less than 0.1 %".to_owned(),
        ..3.0 => format!("{percent:.1} %"),
        _ => format!("{} %", grouped(percent, 0)),
    }
}
