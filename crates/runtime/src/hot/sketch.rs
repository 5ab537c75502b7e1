use xxhash_rust::xxh3::xxh3_64;

/// Names that are counted at a time.
const COUNTERS: usize = 128;
/// How much of a name is kept. A key can be longer, and is still counted as itself.
const SHOWN_BYTES_MAX: usize = 128;

/// How often a name was seen: at least `count - error` times, and at most `count` times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counter {
    /// The name, or how it begins.
    pub(super) shown: Box<[u8]>,
    /// How long it is.
    pub(super) bytes: usize,
    pub(super) count: u64,
    pub(super) error: u64,
}

/// The most frequent names of a stream: Space-Saving (Metwally, Agrawal and El Abbadi, 2005). A name that has no counter takes over
/// that of the least frequent one, with its count as the error. A name that is more than 1 in 128 of the stream has a counter for
/// certain.
#[derive(Debug, Default)]
pub(super) struct Sketch {
    /// Of the names, apart: they are looked through for each name that is seen.
    hashes: Vec<u64>,
    counters: Vec<Counter>,
}

impl Sketch {
    /// A name was seen.
    pub(super) fn count(&mut self, name: &[u8]) {
        let hash = xxh3_64(name);
        if let Some(at) = self.hashes.iter().position(|known| *known == hash) {
            self.counters[at].count += 1;
            return;
        }
        let shown = name[..name.len().min(SHOWN_BYTES_MAX)].into();
        let counter = |error: u64| Counter { shown, bytes: name.len(), count: error + 1, error };
        if self.counters.len() < COUNTERS {
            self.hashes.push(hash);
            self.counters.push(counter(0));
            return;
        }
        let least = self.counters.iter().enumerate().min_by_key(|(_, counter)| counter.count);
        if let Some((at, error)) = least.map(|(at, counter)| (at, counter.count)) {
            self.hashes[at] = hash;
            self.counters[at] = counter(error);
        }
    }

    /// Each name that has a counter, by its hash.
    pub(super) fn counters(&self) -> impl Iterator<Item = (u64, &Counter)> {
        self.hashes.iter().copied().zip(&self.counters)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_names_are_counted_exactly() {
        let mut sketch = Sketch::default();
        for number in 0..COUNTERS {
            for _ in 0..=number {
                sketch.count(format!("name-{number}").as_bytes());
            }
        }
        for (_, counter) in sketch.counters() {
            let number: u64 = str::from_utf8(&counter.shown[5..]).expect("text").parse().expect("a number");
            assert_eq!((counter.count, counter.error), (number + 1, 0));
        }
    }

    #[test]
    fn a_long_name_is_cut_and_still_told_from_others() {
        let mut sketch = Sketch::default();
        let long = |end: u8| [&[b'k'; 4095][..], &[end]].concat();
        sketch.count(&long(b'a'));
        sketch.count(&long(b'b'));
        let counters: Vec<_> = sketch.counters().map(|(_, counter)| counter.clone()).collect();
        assert_eq!(counters.len(), 2);
        assert_eq!((counters[0].shown.len(), counters[0].bytes), (SHOWN_BYTES_MAX, 4096));
    }

    proptest! {
        /// Whatever comes, a count is never too low, and never too high by more than its error; and who is frequent is there.
        #[test]
        fn counts_are_within_their_errors(names in prop::collection::vec(0_u32..400, 0..4000)) {
            let mut sketch = Sketch::default();
            let mut exact = std::collections::HashMap::<u32, u64>::new();
            for name in &names {
                // Some names come much more often than others.
                let name = if name % 3 == 0 { name % 5 } else { *name };
                sketch.count(&name.to_le_bytes());
                *exact.entry(name).or_default() += 1;
            }
            prop_assert!(sketch.counters().count() <= COUNTERS);
            let mut found = std::collections::HashSet::new();
            for (_, counter) in sketch.counters() {
                let name = u32::from_le_bytes(counter.shown[..].try_into().expect("a number"));
                let count = exact[&name];
                prop_assert!(counter.count >= count && counter.count - counter.error <= count);
                found.insert(name);
            }
            for (name, count) in exact {
                prop_assert!(count as usize * COUNTERS <= names.len() || found.contains(&name));
            }
        }
    }
}
