/// Random numbers, not for secrets.
pub trait Rng: Send + Sync {
    /// 64 uniform bits.
    fn next_u64(&self) -> u64;

    /// A uniform number below `bound`, which is not 0.
    fn below(&self, bound: u64) -> u64 {
        // The widening multiply is Lemire's; its bias is under bound / 2^64.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// The step of a `SplitMix64` state: an odd number, so that the state visits every value.
pub(crate) const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of `SplitMix64` (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators").
pub(crate) fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
