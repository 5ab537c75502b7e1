//! Random numbers that are the same in every run, and cheap beside what is measured.

/// `SplitMix64` (Steele, Lea, Flood, 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number under `bound`, which is not 0 (Lemire's multiplication; its bias is under 2⁻³² here).
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to 1, 1 excluded.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

pub(crate) const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// Every number under `count` once, scattered: step `k` is `k · stride mod count` with a stride that shares no factor
/// with `count` and is near the golden ratio of it, so that any stretch of steps covers the whole evenly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scattered {
    count: u64,
    stride: u64,
}

impl Scattered {
    pub(crate) fn new(count: u64) -> Self {
        let mut stride = ((count as f64 * 0.618_033_988_749_894_9) as u64).max(1);
        while greatest_common_divisor(stride, count) != 1 {
            stride += 1;
        }
        Self { count, stride }
    }

    pub(crate) fn at(&self, step: u64) -> u64 {
        ((u128::from(step) * u128::from(self.stride)) % u128::from(self.count)) as u64
    }
}

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scattered_order_has_every_number_once() {
        for count in [1, 2, 3, 10, 1000, 1009, 4096] {
            let order = Scattered::new(count);
            let mut seen: Vec<u64> = (0..count).map(|step| order.at(step)).collect();
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(0..count), "{count}");
        }
    }

    #[test]
    fn numbers_stay_below_their_bound() {
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert!((0..1000).all(|_| random.unit() < 1.0));
    }
}
