//! What two samples of a figure mean, in words.

use super::rank_test::{VALUES_MIN, p_value};

/// A change is told where chance alone would make one as large less often than this.
const LEVEL: f64 = 0.01;
/// A smaller change is noise whatever the test says: two runs on one machine differ by as much.
const CHANGE_MIN: f64 = 0.03;

/// Of a figure: its values in every second, by round.
pub(super) type Rounds = Vec<Vec<f64>>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) before: Option<f64>,
    pub(super) after: Option<f64>,
    /// `after / before - 1`
    pub(super) change: Option<f64>,
    pub(super) words: String,
}

/// Whether a larger value is better or worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

/// The test is made over the seconds of all rounds; where there are several rounds, a change has to be larger than what
/// the rounds of one side differ by, too: seconds of one round resemble each other more than two rounds do.
pub(super) fn judge(before: &Rounds, after: &Rounds, better: Better) -> Verdict {
    let (all_before, all_after) = (before.concat(), after.concat());
    let medians = (median(&all_before), median(&all_after));
    let (Some(from), Some(to)) = medians else {
        return Verdict {
            before: medians.0,
            after: medians.1,
            change: None,
            words: "cannot be told: nothing was measured on one side".to_owned(),
        };
    };
    let change = if from > 0.0 { to / from - 1.0 } else { 0.0 };
    let words = match p_value(&all_before, &all_after) {
        None => format!("cannot be told: fewer than {VALUES_MIN} seconds on one side"),
        Some(p) => in_words(change, p, spread(before).max(spread(after)), better),
    };
    Verdict { before: Some(from), after: Some(to), change: Some(change), words }
}

fn in_words(change: f64, p: f64, spread: f64, better: Better) -> String {
    let chance = if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") };
    if p >= LEVEL {
        return format!("within noise ({chance})");
    }
    if change.abs() < CHANGE_MIN {
        return format!("within noise: less than {:.0} % ({chance})", CHANGE_MIN * 100.0);
    }
    if change.abs() <= spread {
        return format!("within noise: the rounds of one side differ by {:.0} % themselves", spread * 100.0);
    }
    let is_better = (change < 0.0) == (better == Better::Lower);
    format!("{} ({chance})", if is_better { "better" } else { "worse" })
}

/// By how much the medians of the rounds differ, as a part of the smallest; zero where there is one round.
fn spread(rounds: &Rounds) -> f64 {
    let medians: Vec<f64> = rounds.iter().filter_map(|round| median(round)).collect();
    let least = medians.iter().copied().fold(f64::MAX, f64::min);
    let most = medians.iter().copied().fold(0.0, f64::max);
    if medians.len() < 2 || least <= 0.0 { 0.0 } else { most / least - 1.0 }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let high = *sorted.get(upper)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[upper - 1], high) } else { high })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around `middle` that differ by a few percent.
    fn around(middle: f64, seconds: u32) -> Vec<f64> {
        (0..seconds).map(|i| middle * (1.0 + f64::from(i * 7 % 5) / 100.0)).collect()
    }

    #[test]
    fn a_change_is_told_and_noise_is_called_noise() {
        let words = |before: f64, after: f64, better| {
            judge(&vec![around(before, 20)], &vec![around(after, 20)], better).words
        };
        assert_eq!(words(100.0, 150.0, Better::Lower), "worse (p < 0.0001)");
        assert_eq!(words(150.0, 100.0, Better::Lower), "better (p < 0.0001)");
        assert_eq!(words(100.0, 150.0, Better::Higher), "better (p < 0.0001)");
        assert_eq!(words(100.0, 100.0, Better::Lower), "within noise (p = 1.0000)");
        assert!(
            words(100.0, 102.0, Better::Lower).starts_with("within noise"),
            "{}",
            words(100.0, 102.0, Better::Lower)
        );
    }

    #[test]
    fn rounds_that_differ_set_the_bound() {
        let before = vec![around(100.0, 20), around(130.0, 20)];
        let after = vec![around(120.0, 20), around(140.0, 20)];
        let verdict = judge(&before, &after, Better::Lower);
        assert_eq!(verdict.words, "within noise: the rounds of one side differ by 30 % themselves");
        assert!(verdict.change.unwrap() > 0.1);
    }

    #[test]
    fn too_little_is_no_verdict() {
        let verdict = judge(&vec![around(100.0, 3)], &vec![around(200.0, 20)], Better::Lower);
        assert_eq!(verdict.words, "cannot be told: fewer than 6 seconds on one side");
        let verdict = judge(&vec![], &vec![around(200.0, 20)], Better::Lower);
        assert!(verdict.words.starts_with("cannot be told"), "{verdict:?}");
        assert_eq!(
            (median(&[]), median(&[3.0, 1.0]), median(&[3.0, 1.0, 2.0])),
            (None, Some(2.0), Some(2.0))
        );
    }
}
