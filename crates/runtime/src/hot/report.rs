use std::collections::HashMap;

use super::sampler::{AccessKind, HotKeys, SAMPLED_ONE_IN};
use super::sketch::{Counter, Sketch};

/// A name that was seen less often may be there by chance.
const SAMPLES_MIN: u64 = 2;
/// Less time than this says little about a rate.
const SECONDS_MIN: f64 = 1.0;

/// What clients ask a node for most, in the last 30 to 60 seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct HotReport {
    /// Reads.
    pub reads: HotList,
    /// Writes.
    pub writes: HotList,
}

/// The same of one kind of access.
#[derive(Debug, Clone, PartialEq)]
pub struct HotList {
    /// Accesses per second, to all keys.
    pub rate: f64,
    /// Keys, the hottest first.
    pub keys: Vec<HotName>,
    /// Prefixes, the hottest first.
    pub prefixes: Vec<HotName>,
}

/// A key or a prefix.
#[derive(Debug, Clone, PartialEq)]
pub struct HotName {
    /// The name, or its first 128 bytes.
    pub shown: Box<[u8]>,
    /// How long it is.
    pub bytes: usize,
    /// Accesses per second: at least so many, as far as samples tell.
    pub rate: f64,
    /// Their part of all accesses, from 0 to 1.
    pub share: f64,
    /// Their part at most: what the counters cannot tell from others is in it.
    pub share_max: f64,
}

impl HotReport {
    /// Of these event loops, as of now on the clock that counted.
    pub fn of<'h>(loops: impl Iterator<Item = &'h HotKeys> + Clone, now_ns: u64) -> HotReport {
        HotReport {
            reads: HotList::of(loops.clone(), AccessKind::Read, now_ns),
            writes: HotList::of(loops, AccessKind::Write, now_ns),
        }
    }
}

impl HotList {
    fn of<'h>(loops: impl Iterator<Item = &'h HotKeys>, kind: AccessKind, now_ns: u64) -> HotList {
        let (mut samples, mut since_ns) = (0, now_ns);
        let (mut keys, mut prefixes) = (Merged::default(), Merged::default());
        for hot in loops {
            let its_since_ns = hot.look(kind, now_ns, |seen| {
                samples += seen.count;
                keys.add(&seen.keys);
                prefixes.add(&seen.prefixes);
            });
            since_ns = since_ns.min(its_since_ns.unwrap_or(now_ns));
        }
        let seconds = (now_ns.saturating_sub(since_ns) as f64 / 1e9).max(SECONDS_MIN);
        let rate = samples as f64 * f64::from(SAMPLED_ONE_IN) / seconds;
        let names = |merged: Merged| merged.into_names(rate, samples);
        HotList { rate, keys: names(keys), prefixes: names(prefixes) }
    }
}

/// Counters of several sketches, by the hash of the name.
#[derive(Default)]
struct Merged(HashMap<u64, Counter>);

impl Merged {
    fn add(&mut self, sketch: &Sketch) {
        for (hash, counter) in sketch.counters() {
            let sum = self.0.entry(hash).or_insert_with(|| Counter { count: 0, error: 0, ..counter.clone() });
            sum.count += counter.count;
            sum.error += counter.error;
        }
    }

    fn into_names(self, rate: f64, samples: u64) -> Vec<HotName> {
        let mut counters: Vec<Counter> =
            self.0.into_values().filter(|counter| counter.count - counter.error >= SAMPLES_MIN).collect();
        counters.sort_by(|one, other| {
            let certain = |counter: &Counter| counter.count - counter.error;
            certain(other).cmp(&certain(one)).then_with(|| one.shown.cmp(&other.shown))
        });
        let name = |counter: Counter| {
            let share = (counter.count - counter.error) as f64 / samples as f64;
            HotName {
                shown: counter.shown,
                bytes: counter.bytes,
                rate: rate * share,
                share,
                share_max: counter.count as f64 / samples as f64,
            }
        };
        counters.into_iter().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn the_hottest_come_first_with_their_share_and_rate() {
        let loops = [HotKeys::new(1), HotKeys::new(2)];
        // Over four seconds, 12,800 reads of each loop: half of them of one key.
        for hot in &loops {
            for number in 0..12_800_u64 {
                let key = if number % 2 == 0 { "user:hot".to_owned() } else { format!("item:{number}") };
                hot.count(AccessKind::Read, key.as_bytes(), || number * 4 * SECOND_NS / 12_800);
            }
        }
        let report = HotReport::of(loops.iter(), 4 * SECOND_NS);
        let HotReport { reads, writes } = report;
        assert!((4_500.0..8_500.0).contains(&reads.rate), "{reads:?}");
        let hottest = &reads.keys[0];
        assert_eq!(&*hottest.shown, b"user:hot");
        assert!((0.4..0.6).contains(&hottest.share) && hottest.share <= hottest.share_max, "{hottest:?}");
        assert!((hottest.rate - reads.rate * hottest.share).abs() < 1.0, "{hottest:?}");
        let prefixes: Vec<_> = reads.prefixes.iter().map(|name| &*name.shown).collect();
        assert_eq!(prefixes.len(), 2);
        assert!(prefixes.contains(&&b"user:"[..]) && prefixes.contains(&&b"item:"[..]));
        assert_eq!(writes, HotList { rate: 0.0, keys: vec![], prefixes: vec![] });
    }

    #[test]
    fn keys_that_are_asked_for_alike_are_not_called_hot() {
        let hot = HotKeys::new(3);
        for number in 0..2_000_000_u32 {
            hot.count(AccessKind::Write, &number.to_le_bytes(), || 0);
        }
        let report = HotReport::of([&hot].into_iter(), SECOND_NS);
        assert_eq!(report.writes.keys, []);
    }
}
