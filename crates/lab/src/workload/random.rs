/// `SplitMix64` (Steele, Lea and Flood, 2014): small, fast, and the same everywhere for the same seed.
#[derive(Debug, Clone)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Less than `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // Lemire's reduction; its bias is below 2^-40 for any number of keys that fits on a disk.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0, included, to 1, excluded.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Spreads a number over all 64 bits; a bijection.
pub(super) const fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_bounds_hold() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        for _ in 0..1000 {
            assert_eq!(one.below(10), other.below(10));
            assert!(one.unit() < 1.0 && other.unit() >= 0.0 && one.below(3) < 3 && other.below(3) < 3);
        }
        assert_ne!(Random::new(1).next(), Random::new(2).next());
    }
}
