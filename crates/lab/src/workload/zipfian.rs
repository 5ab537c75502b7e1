use rand::RngExt;

use super::random::Random;

/// YCSB's constant.
const THETA: f64 = 0.99;
/// So many terms of zeta are summed up; the rest is integrated, which is exact to eight digits from there on.
const SUMMED_MAX: u64 = 100_000;

/// Ranks from 0, of which rank `i` is as likely as `1 / (i + 1)^0.99`. The algorithm of Gray et al., "Quickly
/// generating billion-record synthetic databases" (1994), as YCSB uses it. `rand_distr::Zipf` takes three times as long,
/// which would be 0.2 µs of each request of the load generator.
#[derive(Debug, Clone)]
pub(super) struct Zipfian {
    items: u64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    second: f64,
}

impl Zipfian {
    pub(super) fn new(items: u64) -> Self {
        assert!(items > 0);
        let (zeta_all, zeta_two) = (zeta(items), zeta(2.min(items)));
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_two / zeta_all);
        Self { items, zeta: zeta_all, alpha: 1.0 / (1.0 - THETA), eta, second: 1.0 + 0.5_f64.powf(THETA) }
    }

    pub(super) fn next(&self, random: &mut Random) -> u64 {
        let unit = random.random::<f64>();
        let scaled = unit * self.zeta;
        if scaled < 1.0 || self.items == 1 {
            return 0;
        }
        if scaled < self.second {
            return 1;
        }
        let rank = self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items - 1)
    }
}

/// The sum of `1 / i^THETA` for `i` from 1 to `items`.
fn zeta(items: u64) -> f64 {
    let summed = items.min(SUMMED_MAX);
    let head: f64 = (1..=summed).map(|i| (i as f64).powf(-THETA)).sum();
    if items == summed {
        return head;
    }
    // Euler and Maclaurin, up to the first correction.
    let (from, to) = (summed as f64, items as f64);
    let integral = (to.powf(1.0 - THETA) - from.powf(1.0 - THETA)) / (1.0 - THETA);
    head + integral + f64::midpoint(to.powf(-THETA), -from.powf(-THETA))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn zeta_is_that_of_ycsb() {
        // YCSB's own constant for ten billion items.
        assert!((zeta(10_000_000_000) - 26.469_028_201_783_02).abs() < 1e-6, "{}", zeta(10_000_000_000));
        assert!((zeta(2) - (1.0 + 2_f64.powf(-0.99))).abs() < 1e-12);
    }

    #[test]
    fn the_first_ranks_are_as_likely_as_they_should_be() {
        let (zipfian, mut random) = (Zipfian::new(1000), Random::seed_from_u64(1));
        let mut counts = [0_u32; 1000];
        for _ in 0..200_000 {
            counts[zipfian.next(&mut random) as usize] += 1;
        }
        for rank in [0_usize, 1] {
            let expected = 200_000.0 / zeta(1000) / ((rank + 1) as f64).powf(THETA);
            let share = f64::from(counts[rank]) / expected;
            assert!((0.97..1.03).contains(&share), "rank {rank}: {share}");
        }
        assert!(counts[0] > counts[10] && counts[10] > counts[500]);
        assert!(
            (0..100).all(|_| Zipfian::new(1).next(&mut random) == 0 && Zipfian::new(2).next(&mut random) < 2)
        );
    }
}
