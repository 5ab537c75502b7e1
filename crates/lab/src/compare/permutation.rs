//! Whether two sets of rounds differ: a permutation test on ranks, exact unless there are many.
//!
//! If nothing has changed, the names of the two sides could be exchanged between the rounds of a block, and every
//! exchange would be as likely as the one that was measured. The share of exchanges whose rank sum is as far from the
//! expected one is the probability. Nothing is asked of how the values are distributed. With one block this is the
//! exact test of Wilcoxon, Mann and Whitney; with several it is that of Hodges and Lehmann (1962), on aligned ranks.

use statrs::distribution::{ContinuousCDF, Normal};

/// With more rounds than this of both sides, the rank sum is taken to be normally distributed, which it nearly is then. The exact test takes
/// time with their fourth power: the ranks go over all blocks, and so do their sums.
pub(super) const EXACT_ROUNDS_MAX: usize = 48;
/// Rounds of a side that a block of alternating rounds has at least: fewer would make the steps of the probability coarse,
/// more would let in what drifts.
const BLOCK_ROUNDS_MIN: usize = 4;
/// Two distances from the expected rank sum that differ by less are the same.
const SAME: f64 = 1e-9;

/// Values of rounds that would be exchangeable if nothing had changed. Neither side is empty.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Block {
    pub(super) before: Vec<f64>,
    pub(super) after: Vec<f64>,
}

/// Divides rounds that alternated into blocks of neighbours, so that what drifts slowly does not disturb.
pub(super) fn blocks_of_alternation(before: &[f64], after: &[f64]) -> Vec<Block> {
    let rounds = before.len().min(after.len());
    let mut blocks = Vec::new();
    let mut begin = 0;
    for size in sizes(rounds) {
        let end = begin + size;
        blocks.push(Block { before: before[begin..end].to_vec(), after: after[begin..end].to_vec() });
        begin = end;
    }
    blocks
}

/// As even as possible.
fn sizes(rounds: usize) -> impl Iterator<Item = usize> {
    let count = (rounds / BLOCK_ROUNDS_MIN).max(usize::from(rounds > 0));
    (0..count).map(move |block| rounds / count + usize::from(block < rounds % count))
}

/// The two-sided probability that chance alone makes the sides differ as much, after `shift` is taken from the values
/// after.
pub(super) fn p_value(blocks: &[Block], shift: f64) -> f64 {
    let rounds: usize = blocks.iter().map(|block| block.before.len() + block.after.len()).sum();
    probability(blocks, shift, rounds <= EXACT_ROUNDS_MAX)
}

fn probability(blocks: &[Block], shift: f64, is_exact: bool) -> f64 {
    let mut residuals = Vec::new();
    for block in blocks {
        let shifted = block.after.iter().map(|value| value - shift);
        let values: Vec<f64> = block.before.iter().copied().chain(shifted).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        residuals.extend(values.iter().map(|value| value - mean));
    }
    let ranks = doubled_ranks(&residuals);
    let (mut found, mut expected, mut rest) = (0.0, 0.0, ranks.as_slice());
    let mut sums = vec![1.0];
    let mut variance = 0.0;
    for block in blocks {
        let (of_block, others) = rest.split_at(block.before.len() + block.after.len());
        rest = others;
        found += of_block[block.before.len()..].iter().map(|rank| f64::from(*rank)).sum::<f64>();
        let moments = moments(of_block, block.after.len());
        expected += moments.0;
        variance += moments.1;
        if is_exact {
            sums = convolved(&sums, &rank_sums(of_block, block.after.len()));
        }
    }
    let distance = (found - expected).abs();
    if !is_exact {
        return if variance > 0.0 { (2.0 * upper_tail(distance / variance.sqrt())).min(1.0) } else { 1.0 };
    }
    let is_as_far = |sum: usize| (sum as f64 - expected).abs() >= distance - SAME;
    sums.iter().enumerate().filter(|(sum, _)| is_as_far(*sum)).map(|(_, p)| p).sum::<f64>().min(1.0)
}

/// Twice the ranks, so that values that are equal have whole numbers too.
fn doubled_ranks(values: &[f64]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut begin = 0;
    for same in order.chunk_by(|a, b| values[*a].total_cmp(&values[*b]).is_eq()) {
        let end = begin + same.len();
        for index in same {
            ranks[*index] = (begin + 1 + end) as u32;
        }
        begin = end;
    }
    ranks
}

/// Mean and variance of the sum of `chosen` of the ranks, drawn without putting back.
fn moments(ranks: &[u32], chosen: usize) -> (f64, f64) {
    let (all, chosen) = (ranks.len() as f64, chosen as f64);
    let mean = ranks.iter().map(|rank| f64::from(*rank)).sum::<f64>() / all;
    let squares: f64 = ranks.iter().map(|rank| (f64::from(*rank) - mean).powi(2)).sum();
    (chosen * mean, chosen * (all - chosen) * squares / (all * (all - 1.0)))
}

/// The probability of every sum of `chosen` of the ranks.
fn rank_sums(ranks: &[u32], chosen: usize) -> Vec<f64> {
    let most: usize = ranks.iter().map(|rank| *rank as usize).sum();
    let mut ways = vec![vec![0.0; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        let rank = *rank as usize;
        for count in (1..=chosen).rev() {
            let (fewer, more) = ways.split_at_mut(count);
            let (from, into) = (&fewer[count - 1], &mut more[0]);
            for (sum, without) in from[..=most - rank].iter().enumerate() {
                into[sum + rank] += without;
            }
        }
    }
    let sums = ways.pop().unwrap_or_default();
    let all: f64 = sums.iter().sum();
    sums.into_iter().map(|ways| ways / all).collect()
}

fn convolved(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; one.len() + other.len() - 1];
    for (at, p) in one.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        for (sum, q) in sums[at..].iter_mut().zip(other) {
            *sum += p * q;
        }
    }
    sums
}

/// The smallest probability that so many rounds can give, by block, however different the sides are.
fn least_p(blocks: impl Iterator<Item = (usize, usize)>) -> f64 {
    (2.0 / blocks.map(|(before, after)| choices(before + after, after)).product::<f64>()).min(1.0)
}

pub(super) fn least_p_of(blocks: &[Block]) -> f64 {
    least_p(blocks.iter().map(|block| (block.before.len(), block.after.len())))
}

/// How many ways there are to choose `chosen` of `all`.
fn choices(all: usize, chosen: usize) -> f64 {
    (0..chosen).map(|i| (all - i) as f64 / (chosen - i) as f64).product()
}

/// Rounds of each side with which a difference, if it is large, reaches the level.
pub(super) fn rounds_needed(level: f64, is_alternating: bool) -> usize {
    let mut rounds = 2;
    loop {
        let least = if is_alternating {
            least_p(sizes(rounds).map(|size| (size, size)))
        } else {
            least_p([(rounds, rounds)].into_iter())
        };
        if least <= level {
            return rounds;
        }
        rounds += 1;
    }
}

/// By how much the values after are larger: the median over all pairs of rounds of a block (Hodges and Lehmann, 1963).
pub(super) fn shift(blocks: &[Block]) -> f64 {
    let differences = differences(blocks);
    let upper = differences.len() / 2;
    if differences.len().is_multiple_of(2) {
        f64::midpoint(differences[upper - 1], differences[upper])
    } else {
        differences[upper]
    }
}

/// Every shift that the test does not reject at the level; none if there are too few rounds to reject any.
pub(super) fn interval(blocks: &[Block], level: f64) -> Option<(f64, f64)> {
    let at = differences(blocks);
    // Between two neighbouring differences the probability is the same.
    let is_refused = |below: usize| {
        let shift = match (below.checked_sub(1).map(|low| at[low]), at.get(below)) {
            (Some(low), Some(high)) => f64::midpoint(low, *high),
            (None, Some(high)) => high - 1.0,
            (Some(low), None) => low + 1.0,
            (None, None) => 0.0,
        };
        p_value(blocks, shift) <= level
    };
    if !is_refused(0) || !is_refused(at.len()) {
        return None;
    }
    let gaps: Vec<usize> = (0..at.len()).collect();
    let middle = at.len() / 2;
    let low = gaps[..middle].partition_point(|below| is_refused(*below));
    let high = gaps[middle..].partition_point(|below| !is_refused(*below)) + middle;
    Some((at[low.saturating_sub(1)], at[high.min(at.len() - 1)]))
}

/// Ascending.
fn differences(blocks: &[Block]) -> Vec<f64> {
    let of_block = |block: &Block| -> Vec<f64> {
        block.after.iter().flat_map(|after| block.before.iter().map(move |before| after - before)).collect()
    };
    let mut differences: Vec<f64> = blocks.iter().flat_map(of_block).collect();
    differences.sort_by(f64::total_cmp);
    differences
}

/// The probability that a normal variable exceeds `z`.
fn upper_tail(z: f64) -> f64 {
    Normal::standard().sf(z)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(before: &[f64], after: &[f64]) -> Vec<Block> {
        vec![Block { before: before.to_vec(), after: after.to_vec() }]
    }

    /// U is 4 of 36; the table of Mann and Whitney (1947) has 0.013 for one side.
    #[test]
    fn known_samples_have_their_known_probability() {
        let a = [19.0, 22.0, 16.0, 29.0, 24.0, 18.0];
        let b = [20.0, 11.0, 17.0, 12.0, 13.0, 10.0];
        assert!((p_value(&one(&a, &b), 0.0) - 24.0 / 924.0).abs() < 1e-9, "{}", p_value(&one(&a, &b), 0.0));
        let (low, high) = (&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!((p_value(&one(low, high), 0.0) - 0.1).abs() < 1e-12);
        assert!((p_value(&one(high, low), 0.0) - 0.1).abs() < 1e-12);
        assert!(p_value(&one(&[5.0; 4], &[5.0; 7]), 0.0) > 0.999);
        assert!(p_value(&one(low, high), 3.0) > 0.99, "what was shifted back does not differ");
    }

    #[test]
    fn the_least_probability_is_that_of_sides_that_do_not_overlap() {
        for (before, after) in [(1, 1), (2, 2), (3, 5), (7, 7)] {
            let low: Vec<f64> = (0..before).map(f64::from).collect();
            let high: Vec<f64> = (0..after).map(|i| 100.0 + f64::from(i)).collect();
            let blocks = one(&low, &high);
            assert!((p_value(&blocks, 0.0) - least_p_of(&blocks)).abs() < 1e-12, "{before} {after}");
        }
        let rounds: Vec<f64> = (0..10).map(f64::from).collect();
        let later: Vec<f64> = rounds.iter().map(|round| round + 0.5 + round % 2.0).collect();
        let blocks = blocks_of_alternation(&rounds, &later);
        assert_eq!(blocks.iter().map(|block| block.before.len()).collect::<Vec<_>>(), [5, 5]);
        assert!((least_p_of(&blocks) - 2.0 / (252.0 * 252.0)).abs() < 1e-12);
        assert_eq!(
            [0, 3, 7, 8, 9].map(|rounds| sizes(rounds).collect::<Vec<_>>()),
            [vec![], vec![3], vec![7], vec![4, 4], vec![5, 4]]
        );
    }

    #[test]
    fn rounds_that_are_needed_follow_from_the_level() {
        assert_eq!(
            (rounds_needed(0.34, false), rounds_needed(0.1, false), rounds_needed(0.002, false)),
            (2, 3, 7)
        );
        for level in [0.1, 0.01, 0.001, 1e-5] {
            let rounds = rounds_needed(level, true);
            assert!(least_p(sizes(rounds).map(|size| (size, size))) <= level);
        }
    }

    /// Both sides drift alike: within blocks little of the drift is left.
    #[test]
    fn a_drift_does_not_hide_a_change_of_rounds_that_alternated() {
        let drift = |round: u32| 100.0 * 1.1_f64.powf(f64::from(round));
        let before: Vec<f64> = (0..12).map(|round| drift(round).ln()).collect();
        let after: Vec<f64> =
            before.iter().enumerate().map(|(round, v)| v + 0.2 + (round % 3) as f64 / 100.0).collect();
        let blocks = blocks_of_alternation(&before, &after);
        assert!(p_value(&blocks, 0.0) < 0.03, "{}", p_value(&blocks, 0.0));
        assert!(p_value(&one(&before, &after), 0.0) > 0.1, "{}", p_value(&one(&before, &after), 0.0));
        assert!((shift(&blocks) - 0.21).abs() < 0.02, "{}", shift(&blocks));
    }

    #[test]
    fn an_interval_has_the_shifts_that_are_not_refused() {
        let before = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let after = before.map(|value| value + 10.25);
        let blocks = one(&before, &after);
        let (low, high) = interval(&blocks, 0.05).unwrap();
        assert!(low < 10.25 && high > 10.25 && low > 6.0 && high < 15.0, "{low} {high}");
        assert!(p_value(&blocks, low + 0.1) > 0.05 && p_value(&blocks, low - 0.1) <= 0.05);
        assert!(p_value(&blocks, high - 0.1) > 0.05 && p_value(&blocks, high + 0.1) <= 0.05);
        assert_eq!(interval(&one(&[1.0, 2.0], &[3.0, 4.0]), 0.05), None, "two rounds refuse nothing");
    }

    #[test]
    fn many_rounds_have_nearly_the_exact_probability() {
        let value = |i: u32| f64::from(i * 37 % 101);
        let before: Vec<f64> = (0..24).map(value).collect();
        let after: Vec<f64> = (24..48).map(|i| value(i) + 18.0).collect();
        let exact = p_value(&one(&before, &after), 0.0);
        let (expected, variance) = {
            let ranks = doubled_ranks(&[before.clone(), after.clone()].concat());
            moments(&ranks, after.len())
        };
        let ranks = doubled_ranks(&[before, after].concat());
        let found: u32 = ranks[24..].iter().sum();
        let normal = 2.0 * upper_tail((f64::from(found) - expected).abs() / variance.sqrt());
        assert!((exact - normal).abs() < 0.005, "{exact} {normal}");
        let many: Vec<f64> = (0..60).map(value).collect();
        assert!(p_value(&one(&many, &many), 0.0) > 0.99);
    }

    /// Blocks of alternating rounds are small, so the exact test was made of however many: seconds for a figure of 200 rounds.
    #[test]
    fn many_alternating_rounds_have_nearly_the_exact_probability() {
        let value = |i: u32| f64::from(i * 37 % 101);
        for (rounds, shift) in [(25_u32, 0.0), (25, 30.0), (25, 45.0), (32, 20.0), (32, 40.0)] {
            let before: Vec<f64> = (0..rounds).map(value).collect();
            let after: Vec<f64> = (rounds..2 * rounds).map(|i| value(i) + shift).collect();
            let blocks = blocks_of_alternation(&before, &after);
            let [exact, normal] = [true, false].map(|is_exact| probability(&blocks, 0.0, is_exact));
            assert!(
                (exact - normal).abs() < 0.01 && (0.9..4.0).contains(&(normal / exact)),
                "{exact} {normal}"
            );
            assert_eq!(p_value(&blocks, 0.0).to_bits(), normal.to_bits(), "{rounds} rounds: {exact}");
        }
        let few = blocks_of_alternation(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!((p_value(&few, 0.0) - 0.1).abs() < 1e-12, "few are tested exactly");
    }
}
