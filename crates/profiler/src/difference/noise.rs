//! How far a frame's share may move if nothing has changed.
//!
//! The test statistic of a frame is how far its mean share moved, divided by the spread of its rounds and by the sampling error
//! of so many samples (as in SAM, Tusher, Tibshirani and Chu 2001). How large the statistic of the most striking frame gets if
//! nothing has changed is found by exchanging the names of the two sides between the rounds (Westfall and Young 1993). So all
//! frames together are wrong no more often than `LEVEL`.

use std::fmt;

use super::forest::{Forest, Leaves};
use super::permuted::{FrameShares, largest_by_chance, mean};

/// Of all differences between the same, at most this share has any coloured frame.
pub(super) const LEVEL: f64 = 0.02;
/// With fewer rounds on a side, exchanging their names cannot reach [`LEVEL`]: 2 of the 70 ways for four are 2.9 %.
const ROUNDS_MIN: usize = 5;
/// Frames with less on both sides are too narrow to be seen.
const SHARE_MIN: f64 = 0.001;
/// A share that moved by less than half a point has not changed: two processes of one binary differ by as much.
const POINTS_MIN: f64 = 0.005;
/// For the same reason, nor has one that moved by less than this part of itself.
const PART_MIN: f64 = 0.03;
/// Without rounds: so many standard deviations of sampling, for some hundred frames at once.
const DEVIATIONS: f64 = 4.5;
/// With fewer samples on a side, even a function that takes everything on one side and nothing on the other may do so by chance.
const SAMPLES_MIN: usize = 20;
/// Larger than any change.
const NEVER: f64 = 2.0;

/// How noise was estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// From the differences among so many rounds of each side.
    Rounds([usize; 2]),
    /// By what the parts of one profile of each side differ by.
    Slices([usize; 2]),
    /// By the number of samples alone.
    Sampling,
    /// Not at all: there are too few rounds, so there is no verdict.
    TooFew {
        /// On each side.
        rounds: [usize; 2],
        /// On each side.
        needed: usize,
    },
    /// Not at all: there are too few samples, so there is no verdict.
    TooFewSamples {
        /// On each side.
        samples: [usize; 2],
        /// On each side.
        needed: usize,
    },
}

impl Basis {
    pub(super) fn of_samples(samples: [usize; 2]) -> Option<Basis> {
        let is_too_few = samples.iter().any(|count| *count < SAMPLES_MIN);
        is_too_few.then_some(Basis::TooFewSamples { samples, needed: SAMPLES_MIN })
    }

    pub(super) fn of_rounds(counts: [usize; 2]) -> Basis {
        if counts.iter().all(|count| *count >= ROUNDS_MIN) {
            Basis::Rounds(counts)
        } else {
            Basis::TooFew { rounds: counts, needed: ROUNDS_MIN }
        }
    }

    pub(super) fn of_slices(counts: [usize; 2]) -> Option<Basis> {
        counts.iter().all(|count| *count >= ROUNDS_MIN).then_some(Basis::Slices(counts))
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let floor = "or by less than half a point or 3 % of itself";
        match self {
            Basis::Rounds([before, after]) => write!(
                formatter,
                "Grey is what differs by no more than {before} and {after} rounds do among themselves, {floor}: in at \
                 most {:.0} of 100 comparisons of the same any frame has a colour.",
                LEVEL * 100.0
            ),
            Basis::Slices([before, after]) => write!(
                formatter,
                "Grey is what differs by no more than {before} and {after} parts of the two profiles do among \
                 themselves, {floor}. Two runs of one program may differ by more: `ladoga lab compare` tells by rounds."
            ),
            Basis::Sampling => write!(
                formatter,
                "Grey is what chance alone does to so many samples, {floor}. Two runs of one program may differ by \
                 more: `ladoga lab compare` tells by rounds."
            ),
            Basis::TooFew { rounds: [before, after], needed } => write!(
                formatter,
                "Everything is grey, as nothing can be told: {before} and {after} rounds, {needed} needed on each side."
            ),
            Basis::TooFewSamples { samples: [before, after], needed } => write!(
                formatter,
                "Everything is grey, as nothing can be told: {before} and {after} samples, {needed} needed on each side."
            ),
        }
    }
}

/// One measurement, by node of the forest: shares of its whole, callees included.
#[derive(Debug)]
pub(super) struct Round {
    total: f64,
    shares: Vec<f64>,
    /// Sums of squares, of samples whose sum is 1.
    squares: Vec<f64>,
    all_squares: f64,
}

impl Round {
    pub(super) fn new(forest: &Forest, leaves: &Leaves) -> Round {
        let (mut shares, mut squares) = (vec![0.0; forest.len()], vec![0.0; forest.len()]);
        let total: f64 = leaves.iter().map(|(_, weight)| weight.sum as f64).sum();
        let mut all_squares = 0.0;
        for (leaf, weight) in leaves {
            let square = weight.squares / (total * total);
            shares[*leaf] += weight.sum as f64 / total;
            squares[*leaf] += square;
            all_squares += square;
        }
        forest.add_up(&mut shares);
        forest.add_up(&mut squares);
        Round { total, shares, squares, all_squares }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.total <= 0.0
    }

    /// What chance does to a share that is `expected`: the variance of a ratio of sums of independent samples.
    fn variance(&self, node: usize, expected: f64) -> f64 {
        let (own, all) = (self.squares[node], self.all_squares);
        (1.0 - expected).powi(2) * own + expected.powi(2) * (all - own).max(0.0)
    }
}

/// The rounds of both sides.
#[derive(Debug)]
pub(super) struct Sides([Vec<Round>; 2]);

impl Sides {
    pub(super) fn new(forest: &Forest, leaves: &[Vec<Leaves>; 2]) -> Sides {
        Sides(leaves.each_ref().map(|side| {
            side.iter().map(|round| Round::new(forest, round)).filter(|round| !round.is_empty()).collect()
        }))
    }

    /// The mean share of a node on each side.
    pub(super) fn shares(&self, node: usize) -> [f64; 2] {
        self.0.each_ref().map(|side| mean(side.iter().map(|round| round.shares[node])))
    }

    /// Nodes that are wide enough to be seen.
    pub(super) fn seen(&self, forest: &Forest) -> Vec<usize> {
        let is_seen = |node: &usize| self.shares(*node).iter().any(|share| *share >= SHARE_MIN);
        (0..forest.len()).filter(is_seen).collect()
    }

    /// By so many deviations the most striking node may differ if nothing has changed; none if nothing can be told.
    pub(super) fn deviations(&self, forest: &Forest, basis: &Basis) -> Option<f64> {
        match basis {
            Basis::TooFew { .. } | Basis::TooFewSamples { .. } => None,
            Basis::Sampling => Some(DEVIATIONS),
            Basis::Rounds(_) | Basis::Slices(_) => {
                let mut frames: Vec<FrameShares> =
                    self.seen(forest).into_iter().map(|node| self.frame(node)).collect();
                // A chain of callers, each with one callee, is one frame many times.
                frames.dedup_by(|one, other| one.shares == other.shares);
                Some(largest_by_chance(&frames, LEVEL))
            }
        }
    }

    /// By node: what it may move by if nothing has changed.
    pub(super) fn noise(&self, forest: &Forest, basis: &Basis, deviations: Option<f64>) -> Vec<f64> {
        let mut noise = vec![NEVER; forest.len()];
        let Some(deviations) = deviations else { return noise };
        for node in self.seen(forest) {
            let frame = self.frame(node);
            let chance = match basis {
                Basis::Sampling => deviations * frame.sampling,
                _ => (deviations * frame.deviation()).max(frame.drift()),
            };
            let largest = self.shares(node).into_iter().fold(0.0, f64::max);
            noise[node] = chance.max(POINTS_MIN).max(PART_MIN * largest);
        }
        noise
    }

    fn frame(&self, node: usize) -> FrameShares {
        let all =
            self.0.each_ref().map(|side| side.iter().map(|round| round.shares[node]).collect::<Vec<f64>>());
        let expected = mean(all.iter().flatten().copied());
        let variance = |side: &Vec<Round>| {
            side.iter().map(|round| round.variance(node, expected)).sum::<f64>()
                / (side.len().max(1) as f64).powi(2)
        };
        let sampling = self.0.iter().map(variance).sum::<f64>().sqrt();
        let [before, after] = all;
        FrameShares { before: before.len(), shares: [before, after].concat(), sampling }
    }
}
