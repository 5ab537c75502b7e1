//! Random numbers that are the same everywhere for the same seed.

/// Fast, and with an algorithm that is fixed, which `rand` does not promise of its own generators.
pub(super) type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// Spreads a number over all 64 bits: the finalizer of `SplitMix64` (Steele, Lea and Flood, 2014), a bijection.
pub(super) const fn mix(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
