use rand::RngExt;

use super::random::{Random, mix};
use super::zipfian::Zipfian;

/// Which keys are asked for more often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Distribution {
    /// All alike
    Uniform,
    /// A few very often, spread over the keys, with YCSB's constant
    Zipfian,
    /// The newest most often
    Latest,
    /// A fifth of the keys gets four fifths of the requests
    Hot,
}

const HOT_KEYS_PART: u64 = 5;
const HOT_REQUESTS: f64 = 0.8;

/// Chooses keys.
#[derive(Debug, Clone)]
pub(super) struct Chooser {
    distribution: Distribution,
    keys: u64,
    zipfian: Option<Zipfian>,
}

impl Chooser {
    pub(super) fn new(distribution: Distribution, keys: u64) -> Self {
        let needs_zipfian = matches!(distribution, Distribution::Zipfian | Distribution::Latest);
        Self { distribution, keys, zipfian: needs_zipfian.then(|| Zipfian::new(keys)) }
    }

    /// The number of a key; `newest` is the number of the newest one, which only `latest` looks at.
    pub(super) fn choose(&self, random: &mut Random, newest: u64) -> u64 {
        match (self.distribution, &self.zipfian) {
            (Distribution::Zipfian, Some(zipfian)) => mix(zipfian.next(random) + 1) % self.keys,
            (Distribution::Latest, Some(zipfian)) => newest.saturating_sub(zipfian.next(random)),
            (Distribution::Hot, _) => {
                let hot = (self.keys / HOT_KEYS_PART).max(1);
                if hot == self.keys || random.random::<f64>() < HOT_REQUESTS {
                    random.random_range(0..hot)
                } else {
                    random.random_range(hot..self.keys)
                }
            }
            _ => random.random_range(0..self.keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn shares(distribution: Distribution, keys: u64) -> Vec<f64> {
        let (chooser, mut random) = (Chooser::new(distribution, keys), Random::seed_from_u64(3));
        let mut counts = vec![0.0; keys as usize];
        for _ in 0..100_000 {
            counts[chooser.choose(&mut random, keys - 1) as usize] += 1e-5;
        }
        counts
    }

    #[test]
    fn the_same_seed_gives_the_same_keys() {
        let keys = |seed| {
            let (chooser, mut random) =
                (Chooser::new(Distribution::Zipfian, 1_000_000), Random::seed_from_u64(seed));
            (0..3).map(|_| chooser.choose(&mut random, 0)).collect::<Vec<_>>()
        };
        assert_eq!(keys(7), keys(7));
        assert_ne!(keys(7), keys(8));
    }

    #[test]
    fn distributions_are_what_they_are_called() {
        assert!(shares(Distribution::Uniform, 10).iter().all(|share| (0.09..0.11).contains(share)));
        let hot = shares(Distribution::Hot, 10);
        assert!((0.38..0.42).contains(&hot[0]) && (0.02..0.03).contains(&hot[9]), "{hot:?}");
        let latest = shares(Distribution::Latest, 100);
        assert!(latest[99] > latest[98] && latest[98] > latest[50], "{latest:?}");
        let zipfian = shares(Distribution::Zipfian, 1000);
        let most = zipfian.iter().copied().fold(0.0, f64::max);
        assert!(most > 0.1, "{most}");
        for distribution in
            [Distribution::Uniform, Distribution::Zipfian, Distribution::Latest, Distribution::Hot]
        {
            assert!((shares(distribution, 1)[0] - 1.0).abs() < 1e-6);
        }
    }
}
