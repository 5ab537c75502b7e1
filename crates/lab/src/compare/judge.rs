//! What the rounds of two sides mean: verdicts over all figures of a comparison. Pure.

use super::permutation::{Block, blocks_of_alternation, interval, least_p_of, p_value, rounds_needed, shift};

/// Of all comparisons in which nothing changed, at most this share has any verdict, however many figures they have.
pub(super) const LEVEL: f64 = 0.02;
/// A smaller change is none: two processes of one binary differ by as much.
pub(super) const CHANGE_MIN: f64 = 0.03;
/// What is less probable than this may be noise or not. It is no verdict, but calling it noise would be one.
const UNCLEAR: f64 = 0.2;
/// Intervals hold the true value so often, each for itself.
const CONFIDENCE: f64 = 0.95;

/// Whether a larger value is better or worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Better {
    Lower,
    Higher,
}

/// How values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// By their ratio.
    Amount,
    /// By their difference: a share, which may be zero.
    Share,
}

/// A figure of whole rounds, in their order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rounds {
    pub(super) kind: Kind,
    pub(super) better: Better,
    pub(super) before: Vec<f64>,
    pub(super) after: Vec<f64>,
}

/// How the rounds of the two sides were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Design {
    /// All of one side, then all of the other.
    Apart,
    /// A B, B A, and so on; the values of a round stand at one place on both sides.
    Alternating,
}

/// The median of one side, and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Side {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A ratio less one, or a difference of shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Change {
    pub(super) by: f64,
    /// None if there are too few rounds for one.
    pub(super) interval: Option<(f64, f64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Told {
    /// With the probability that chance alone makes one of all figures differ as much.
    Better(f64),
    Worse(f64),
    Noise(f64),
    /// Not sure enough for a verdict, and too improbable for noise.
    Unclear(f64),
    /// It differs for sure, and by less than [`CHANGE_MIN`].
    Small(f64),
    /// Rounds of one side drifted by as much themselves.
    Drifted(f64),
    TooFew {
        before: usize,
        after: usize,
        needed: usize,
    },
    NotMeasured,
    /// Zero in every round of both sides.
    Never,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) before: Option<Side>,
    pub(super) after: Option<Side>,
    pub(super) change: Option<Change>,
    pub(super) told: Told,
}

impl Told {
    pub(super) const fn is_change(self) -> bool {
        matches!(self, Self::Better(_) | Self::Worse(_))
    }
}

/// The verdict on each figure. All of them are one family: the more there are, the more certain each has to be.
pub(super) fn tell(figures: &[Rounds], design: Design) -> Vec<Told> {
    let all_blocks: Vec<Option<Vec<Block>>> = figures.iter().map(|figure| figure.blocks(design)).collect();
    let family = all_blocks.iter().flatten().count();
    let level = LEVEL / family.max(1) as f64;
    let probabilities: Vec<Option<f64>> =
        all_blocks.iter().map(|blocks| Some(p_value(blocks.as_ref()?, 0.0))).collect();
    let adjusted = holm(&probabilities);
    let each = figures.iter().zip(&all_blocks).zip(adjusted);
    each.map(|((figure, blocks), p)| match (blocks, p) {
        (Some(blocks), Some(_)) if least_p_of(blocks) > level => Told::TooFew {
            before: figure.before.len(),
            after: figure.after.len(),
            needed: rounds_needed(level, design == Design::Alternating),
        },
        (Some(blocks), Some(p)) => figure.told(blocks, p, design),
        _ if figure.before.is_empty() || figure.after.is_empty() => Told::NotMeasured,
        _ => Told::Never,
    })
    .collect()
}

/// The same, with the figures themselves and their intervals.
pub(super) fn judge(figures: &[Rounds], design: Design) -> Vec<Verdict> {
    let verdict = |(figure, told): (&Rounds, Told)| Verdict {
        before: side(&figure.before),
        after: side(&figure.after),
        change: figure.blocks(design).map(|blocks| figure.change(&blocks)),
        told,
    };
    figures.iter().zip(tell(figures, design)).map(verdict).collect()
}

/// Holm (1979): the least probable is multiplied by the number of all, the next one by one less, and so on.
fn holm(probabilities: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        probabilities.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut adjusted = vec![None; probabilities.len()];
    let (count, mut least) = (order.len(), 0.0_f64);
    for (place, (index, p)) in order.into_iter().enumerate() {
        least = least.max(p * (count - place) as f64).min(1.0);
        adjusted[index] = Some(least);
    }
    adjusted
}

impl Rounds {
    /// None if there is nothing to compare.
    fn blocks(&self, design: Design) -> Option<Vec<Block>> {
        let is_zero = |values: &[f64]| values.iter().all(|value| *value == 0.0);
        if self.before.is_empty() || self.after.is_empty() || is_zero(&self.before) && is_zero(&self.after) {
            return None;
        }
        let scaled = |values: &[f64]| values.iter().map(|value| self.scaled(*value)).collect::<Vec<f64>>();
        let (before, after) = (scaled(&self.before), scaled(&self.after));
        Some(match design {
            Design::Apart => vec![Block { before, after }],
            Design::Alternating => blocks_of_alternation(&before, &after),
        })
    }

    /// Amounts are compared by their ratio, which is the difference of their logarithms.
    fn scaled(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Amount => value.max(AMOUNT_MIN).ln(),
            Kind::Share => value,
        }
    }

    fn of_scaled(&self, shift: f64) -> f64 {
        match self.kind {
            Kind::Amount => shift.exp_m1(),
            Kind::Share => shift,
        }
    }

    fn change(&self, blocks: &[Block]) -> Change {
        let interval = interval(blocks, 1.0 - CONFIDENCE);
        Change {
            by: self.of_scaled(shift(blocks)),
            interval: interval.map(|(low, high)| (self.of_scaled(low), self.of_scaled(high))),
        }
    }

    fn told(&self, blocks: &[Block], p: f64, design: Design) -> Told {
        let shift = shift(blocks);
        let is_small = self.kind == Kind::Amount && self.of_scaled(shift.abs()) < CHANGE_MIN;
        match p {
            UNCLEAR.. => return Told::Noise(p),
            LEVEL.. => return if is_small { Told::Noise(p) } else { Told::Unclear(p) },
            _ if is_small => return Told::Small(p),
            _ => {}
        }
        // Sides that were measured one after the other differ by what the machine did in between, too.
        let drifts = blocks.iter().flat_map(|block| [drift(&block.before), drift(&block.after)]);
        let drift = drifts.fold(0.0, f64::max);
        if design == Design::Apart && drift >= shift.abs() {
            return Told::Drifted(self.of_scaled(drift));
        }
        let is_better = (shift < 0.0) == (self.better == Better::Lower);
        if is_better { Told::Better(p) } else { Told::Worse(p) }
    }
}

/// Less has no logarithm that means anything.
const AMOUNT_MIN: f64 = 1e-9;

/// By how much the second half of the rounds differs from the first.
fn drift(values: &[f64]) -> f64 {
    let (first, second) = values.split_at(values.len() / 2);
    match (median(first), median(second)) {
        (Some(first), Some(second)) => (second - first).abs(),
        _ => 0.0,
    }
}

/// Fewer rounds have no interval of the median at [`CONFIDENCE`].
pub(super) const INTERVAL_ROUNDS_MIN: usize = 6;

/// The interval of the median by order statistics, which asks nothing of the distribution; with fewer rounds than
/// [`INTERVAL_ROUNDS_MIN`], all that was seen.
fn side(values: &[f64]) -> Option<Side> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let outside = outside(sorted.len());
    Some(Side {
        median: median(values)?,
        low: *sorted.get(outside)?,
        high: *sorted.get(sorted.len() - 1 - outside)?,
    })
}

/// How many of the smallest values, and of the largest, are outside of the interval.
fn outside(count: usize) -> usize {
    let (mut ways, mut tail, mut outside) = (0.5_f64.powi(count as i32), 0.0, 0_usize);
    // At most `outside` of the values are below the median as often as so few of fair coins fall on heads.
    loop {
        tail += ways;
        if 2.0 * tail > 1.0 - CONFIDENCE {
            return outside.saturating_sub(1);
        }
        outside += 1;
        ways *= (count - outside + 1) as f64 / outside as f64;
    }
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.len() / 2;
    let high = *sorted.get(upper)?;
    Some(if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[upper - 1], high) } else { high })
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
