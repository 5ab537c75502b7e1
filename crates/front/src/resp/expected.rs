//! How many values a connection may read at a time.

use std::cell::Cell;

/// So many keys are read at a time: the values, which may be large, wait for those before them.
pub(super) const READS_MAX: usize = 16;
/// What they may have together. A single one may have more.
pub(super) const READS_BYTES_MAX: u64 = 64 << 10;

/// What a value is expected to have that a connection reads: about as much as the longest that it found lately. How long a value is, is
/// known once it is in memory, where it stays until the client takes it: so several are read at a time only if they are likely to be short.
pub(super) struct Expected {
    /// 0 as long as none was found.
    value_bytes: Cell<u64>,
    /// What follows from it: asked for by every request.
    reads_max: Cell<usize>,
}

impl Expected {
    pub(super) const fn new() -> Expected {
        Expected { value_bytes: Cell::new(0), reads_max: Cell::new(1) }
    }

    /// So many values may be read at a time.
    pub(super) const fn reads_max(&self) -> usize {
        self.reads_max.get()
    }

    /// A value was found that has so many bytes.
    pub(super) fn found(&self, bytes: u64) {
        let before = self.value_bytes.get();
        // Only many short ones make up for a long one.
        let expected = bytes.max(before - before / 8).max(1);
        self.value_bytes.set(expected);
        self.reads_max.set((READS_BYTES_MAX / expected).clamp(1, READS_MAX as u64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_are_read_at_a_time_as_long_as_they_are_short() {
        let expected = Expected::new();
        assert_eq!(expected.reads_max(), 1, "nobody knows");
        expected.found(0);
        assert_eq!(expected.reads_max(), READS_MAX);
        expected.found(READS_BYTES_MAX / 4);
        assert_eq!(expected.reads_max(), 4);
        expected.found(2 * READS_BYTES_MAX);
        assert_eq!(expected.reads_max(), 1);
        expected.found(100);
        assert_eq!(expected.reads_max(), 1, "one does not make up for it");
        (0..64).for_each(|_| expected.found(100));
        assert_eq!(expected.reads_max(), READS_MAX);
    }
}
