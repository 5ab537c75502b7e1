use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::sketch::Sketch;

/// So many accesses are one sample, on average.
pub(super) const SAMPLED_ONE_IN: u32 = 64;
/// Samples are kept for so long, and once more.
pub(super) const PERIOD_NS: u64 = 30_000_000_000;
/// A prefix ends with the first of these.
const DELIMITERS: [u8; 2] = [b':', b'/'];
/// It is looked for in so many bytes of a key.
const DELIMITED_BYTES_MAX: usize = 64;
/// A key that has none of them has a prefix of so many bytes.
const PREFIX_BYTES: usize = 8;

/// What is done with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessKind {
    /// It is read.
    Read,
    /// It is written: stored, deleted, added to, given another expiry.
    Write,
}

/// The keys that clients ask one event loop for, by samples. Only the thread of this loop counts; any may look.
#[derive(Debug)]
pub struct HotKeys {
    /// So many accesses, and the next one is a sample. Written by one thread, so that counting takes no locked instruction.
    left: AtomicU32,
    seen: Mutex<Seen>,
}

/// What was seen, and what decides which access is the next sample.
#[derive(Debug)]
struct Seen {
    random: u32,
    began_ns: Option<u64>,
    now: Period,
    before: Period,
}

/// What was seen in one period.
#[derive(Debug, Default)]
pub(super) struct Period {
    number: u64,
    /// By kind of access.
    kinds: [Samples; 2],
}

/// What was seen of one kind of access.
#[derive(Debug, Default)]
pub(super) struct Samples {
    pub(super) count: u64,
    pub(super) keys: Sketch,
    pub(super) prefixes: Sketch,
}

impl HotKeys {
    /// Nothing was seen yet. Loops with another `seed` take other samples.
    pub(crate) fn new(seed: u32) -> HotKeys {
        let seen = Seen {
            random: seed.wrapping_mul(0x9e37_79b9) | 1,
            began_ns: None,
            now: Period::default(),
            before: Period::default(),
        };
        HotKeys { left: AtomicU32::new(0), seen: Mutex::new(seen) }
    }

    /// A client asks for a key; what time it is, since any moment, is asked for one access in 64.
    #[inline]
    pub fn count(&self, kind: AccessKind, key: &[u8], now_ns: impl FnOnce() -> u64) {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        } else {
            self.sample(kind, key, now_ns());
        }
    }

    #[cold]
    fn sample(&self, kind: AccessKind, key: &[u8], now_ns: u64) {
        let mut seen = self.seen.lock();
        if seen.began_ns.is_none() {
            // A sample stands for 64 accesses, so the first access must be as unlikely to be one as any other.
            seen.began_ns = Some(now_ns);
            if let Some(left) = seen.next_gap().checked_sub(1) {
                self.left.store(left, Ordering::Relaxed);
                return;
            }
        }
        self.left.store(seen.next_gap(), Ordering::Relaxed);
        seen.turn(now_ns);
        let samples = &mut seen.now.kinds[kind as usize];
        samples.count += 1;
        samples.keys.count(key);
        samples.prefixes.count(prefix(key));
    }

    /// Gives what was seen of a kind of access lately to `look`, and since when that is; `None` if nothing ever was.
    pub(super) fn look(&self, kind: AccessKind, now_ns: u64, mut look: impl FnMut(&Samples)) -> Option<u64> {
        let mut seen = self.seen.lock();
        seen.turn(now_ns);
        [&seen.before, &seen.now].into_iter().for_each(|period| look(&period.kinds[kind as usize]));
        let since_ns = (now_ns / PERIOD_NS).saturating_sub(1) * PERIOD_NS;
        seen.began_ns.map(|began_ns| began_ns.max(since_ns))
    }
}

impl Seen {
    /// How many accesses are left out before the next sample: as many as not, whatever rhythm the accesses have.
    fn next_gap(&mut self) -> u32 {
        // Xorshift (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random % (2 * SAMPLED_ONE_IN - 1)
    }

    /// Forgets what is too old.
    fn turn(&mut self, now_ns: u64) {
        let number = now_ns / PERIOD_NS;
        if number <= self.now.number {
            return;
        }
        let ended = std::mem::replace(&mut self.now, Period { number, ..Period::default() });
        self.before = if ended.number + 1 == number { ended } else { Period::default() };
    }
}

/// A key up to and with its first delimiter behind the first byte, or else its first 8 bytes.
fn prefix(key: &[u8]) -> &[u8] {
    let searched = &key[..key.len().min(DELIMITED_BYTES_MAX)];
    let delimiter = searched.iter().skip(1).position(|byte| DELIMITERS.contains(byte));
    let end = delimiter.map_or(key.len().min(PREFIX_BYTES), |at| at + 2);
    &key[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_with_a_delimiter_or_after_eight_bytes() {
        for (key, expected) in [
            ("user:4711:cart", "user:"),
            ("/users/4711", "/users/"),
            ("a/b:c", "a/"),
            (":", ":"),
            ("::", "::"),
            ("short", "short"),
            ("0123456789", "01234567"),
            ("", ""),
        ] {
            assert_eq!(prefix(key.as_bytes()), expected.as_bytes(), "{key}");
        }
        let late = [&[b'k'; 64][..], b":"].concat();
        assert_eq!(prefix(&late), &[b'k'; 8]);
    }

    #[test]
    fn one_access_in_64_is_a_sample_whatever_the_rhythm() {
        const ACCESSES: u64 = 64_000;
        let hot = HotKeys::new(1);
        for access in 0..ACCESSES {
            // Always 64 keys in the same order.
            hot.count(AccessKind::Read, &(access % 64).to_le_bytes(), || 5);
        }
        let (mut count, mut keys) = (0, 0);
        hot.look(AccessKind::Read, 5, |samples| {
            count += samples.count;
            keys += samples.keys.counters().count();
        });
        assert!((900..1_100).contains(&count), "{count}");
        assert_eq!(keys, 64, "every key was sampled");
        hot.look(AccessKind::Write, 5, |samples| assert_eq!(samples.count, 0));
    }

    #[test]
    fn the_first_accesses_are_no_likelier_to_be_samples_than_others() {
        let mut sampled = 0;
        for seed in 0..6_400 {
            let hot = HotKeys::new(seed);
            hot.count(AccessKind::Read, b"k", || 5);
            hot.look(AccessKind::Read, 5, |samples| sampled += samples.count);
        }
        assert!((20..200).contains(&sampled), "{sampled} of 6,400 first accesses");
    }

    #[test]
    fn what_is_too_old_is_forgotten() {
        let hot = HotKeys::new(1);
        let seen = |now_ns| {
            let mut count = 0;
            let since_ns = hot.look(AccessKind::Write, now_ns, |samples| count += samples.count);
            (count, since_ns)
        };
        assert_eq!(seen(0), (0, None));
        while seen(PERIOD_NS + 8).0 == 0 {
            hot.count(AccessKind::Write, b"k", || PERIOD_NS + 7);
        }
        assert_eq!(seen(PERIOD_NS + 8), (1, Some(PERIOD_NS + 7)));
        assert_eq!(seen(3 * PERIOD_NS - 1), (1, Some(PERIOD_NS + 7)));
        assert_eq!(seen(3 * PERIOD_NS), (0, Some(2 * PERIOD_NS)));
    }
}
