//! The shares of frames by round, and what chance alone makes of the same rounds.

/// So many of all ways to exchange the names of the sides are tried, the measured one included.
const EXCHANGES: usize = 1_000;
/// The same rounds give the same answer.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The shares of a frame by round, those of the first side before the others.
#[derive(Debug)]
pub(super) struct FrameShares {
    pub(super) shares: Vec<f64>,
    pub(super) before: usize,
    /// What sampling alone does to the difference of the means, as a standard deviation.
    pub(super) sampling: f64,
}

impl FrameShares {
    /// The standard deviation of the difference of the means, if the rounds are in this order.
    pub(super) fn deviation(&self) -> f64 {
        let (before, after) = self.shares.split_at(self.before);
        (squared_error(before) + squared_error(after)).sqrt() + self.sampling
    }

    /// By how much one side's second half differs from its first: what the machine did in between looks like a change.
    pub(super) fn drift(&self) -> f64 {
        let (before, after) = self.shares.split_at(self.before);
        let of = |side: &[f64]| {
            let (first, second) = side.split_at(side.len() / 2);
            (mean(first.iter().copied()) - mean(second.iter().copied())).abs()
        };
        of(before).max(of(after))
    }
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}

/// Of the mean: the variance of the values, divided by how many they are.
fn squared_error(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let (count, mean) = (values.len() as f64, mean(values.iter().copied()));
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
}

/// The number of deviations that the most striking of all frames exceeds in at most `level` of the exchanges.
pub(super) fn largest_by_chance(frames: &[FrameShares], level: f64) -> f64 {
    let Some(first) = frames.first() else { return f64::MAX };
    let (rounds, before) = (first.shares.len(), first.before);
    let mut order: Vec<usize> = (0..rounds).collect();
    let mut random = SEED;
    let mut exchanged = FrameShares { shares: vec![0.0; rounds], before, sampling: 0.0 };
    let mut largest: Vec<f64> = Vec::with_capacity(EXCHANGES);
    for exchange in 0..EXCHANGES {
        if exchange > 0 {
            shuffle(&mut order, &mut random);
        }
        let mut most = 0.0_f64;
        for frame in frames {
            for (to, from) in exchanged.shares.iter_mut().zip(&order) {
                *to = frame.shares[*from];
            }
            exchanged.sampling = frame.sampling;
            most = most.max(exchanged.distance());
        }
        largest.push(most);
    }
    largest.sort_by(f64::total_cmp);
    // At most `level` of all lie above.
    largest[EXCHANGES - 1 - (level * EXCHANGES as f64) as usize]
}

impl FrameShares {
    /// Of the means of the two sides, in deviations.
    fn distance(&self) -> f64 {
        let (before, after) = self.shares.split_at(self.before);
        let by = (mean(after.iter().copied()) - mean(before.iter().copied())).abs();
        let deviation = self.deviation();
        if deviation > 0.0 { by / deviation } else { 0.0 }
    }
}

/// Fisher and Yates.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for last in (1..order.len()).rev() {
        // xorshift64*
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        let draw = random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        order.swap(last, draw as usize % (last + 1));
    }
}
