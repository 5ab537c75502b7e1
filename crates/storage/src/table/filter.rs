//! A blocked bloom filter: all probes of a key fall into one cache line.
//!
//! Source: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007; the probes within a line
//! come from a multiplicative walk over 32 bits of the hash.

use crate::prefetch::prefetch;

const LINE_BYTES: usize = 64;
const BITS_PER_KEY: usize = 10;
const PROBES: u8 = 6;

/// The number of cache lines for so many keys.
const fn lines(keys: usize) -> usize {
    let lines = (keys * BITS_PER_KEY).div_ceil(LINE_BYTES * 8);
    if lines == 0 { 1 } else { lines }
}

/// The length of a filter for so many keys.
pub(super) const fn bytes(keys: usize) -> usize {
    lines(keys) * LINE_BYTES + 1
}

/// Builds a filter for keys with these hashes.
pub(super) fn build(hashes: &[u64]) -> Vec<u8> {
    let lines = lines(hashes.len());
    let mut bits = Vec::with_capacity(bytes(hashes.len()));
    bits.resize(lines * LINE_BYTES, 0);
    for &hash in hashes {
        let start = line_of(hash, lines) * LINE_BYTES;
        let line = &mut bits[start..start + LINE_BYTES];
        for bit in probes(hash, PROBES) {
            line[bit / 8] |= 1 << (bit % 8);
        }
    }
    bits.push(PROBES);
    bits
}

#[inline]
const fn line_of(hash: u64, lines: usize) -> usize {
    (((hash >> 32) * lines as u64) >> 32) as usize
}

#[inline]
fn probes(hash: u64, count: u8) -> impl Iterator<Item = usize> {
    let mut walk = hash as u32;
    (0..count).map(move |_| {
        walk = walk.wrapping_mul(0x9e37_79b9);
        (walk >> 23) as usize
    })
}

/// Says which keys are certainly not in a table.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    lines: Box<[Line]>,
    probes: u8,
}

/// What one line of the processor's cache holds.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Line([u8; LINE_BYTES]);

impl Filter {
    /// `None` if the bytes are no filter.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Filter> {
        let (&probes, bits) = bytes.split_last()?;
        let (lines, rest) = bits.as_chunks::<LINE_BYTES>();
        if lines.is_empty() || !rest.is_empty() || u32::try_from(lines.len()).is_err() || probes > 32 {
            return None;
        }
        Some(Filter { lines: lines.iter().map(|line| Line(*line)).collect(), probes })
    }

    pub(crate) const fn memory_bytes(&self) -> usize {
        self.lines.len() * LINE_BYTES
    }

    #[inline]
    fn line(&self, hash: u64) -> &Line {
        &self.lines[line_of(hash, self.lines.len())]
    }

    /// Prefetches the cache line that decides about a key with this hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(self.line(hash));
    }

    /// Whether a key with this hash can be in the table.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let line = self.line(hash);
        probes(hash, self.probes).all(|bit| line.0[bit / 8] & (1 << (bit % 8)) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coding::key_hash;

    #[test]
    fn no_key_is_missed_and_few_others_pass() {
        let hash = |n: u32| key_hash(format!("key{n}").as_bytes());
        let hashes: Vec<u64> = (0..10_000).map(hash).collect();
        let filter = Filter::parse(&build(&hashes)).expect("a filter");
        assert!(hashes.iter().all(|&hash| filter.may_contain(hash)));
        let passed = (10_000..30_000).filter(|&n| filter.may_contain(hash(n))).count();
        assert!(passed < 20_000 * 2 / 100, "{passed} of 20000 passed, expected under 2 %");
    }

    #[test]
    fn broken_bytes_are_no_filter() {
        assert!(Filter::parse(&[]).is_none());
        assert!(Filter::parse(&[6]).is_none());
        assert!(Filter::parse(&[0; 64]).is_none());
        assert!(Filter::parse(&[255; 65]).is_none());
    }
}
