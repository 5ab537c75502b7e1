use crate::Rng;
use crate::rng::{GOLDEN_GAMMA, mix};
use std::sync::atomic::{AtomicU64, Ordering};

/// `SplitMix64` from a seed: the same seed, the same numbers.
#[derive(Debug)]
pub struct SimRng {
    state: AtomicU64,
}

impl SimRng {
    /// A generator; every seed is a good one.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }
}

impl Rng for SimRng {
    fn next_u64(&self) -> u64 {
        // Stepped before it is mixed, as in the paper, so that the numbers are those of every other SplitMix64.
        mix(self.state.fetch_add(GOLDEN_GAMMA, Ordering::SeqCst).wrapping_add(GOLDEN_GAMMA))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_reference_implementation() {
        // https://prng.di.unimi.it/splitmix64.c with the seed 1234567.
        let rng = SimRng::new(1_234_567);
        let numbers = [rng.next_u64(), rng.next_u64(), rng.next_u64()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn below_stays_below_and_reaches_everything() {
        let rng = SimRng::new(7);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[rng.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
