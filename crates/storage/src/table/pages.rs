use super::{BLOCK_BYTES, TRAILER_BYTES};

/// A page of the system's: what it reads from the disk at least.
const PAGE_BYTES: u64 = BLOCK_BYTES as u64;

/// The rest of a page behind a block is padded if it is at most this, an eighth of a page.
const PADDING_BYTES_MAX: u64 = PAGE_BYTES / 8;

/// How many bytes to leave empty behind what ends at `end`, so that the next block begins with a page of its own.
pub(super) fn padding(end: u64) -> usize {
    let left = end.next_multiple_of(PAGE_BYTES) - end;
    if left <= PADDING_BYTES_MAX { left as usize } else { 0 }
}

/// How long the data blocks of a table should be, so that a whole number of them fills a page: a block that lies across
/// the end of a page takes two pages from the disk, and two places of the page cache.
///
/// How small compression makes the next block is not known before it is compressed: the ratio of the last block is assumed.
#[derive(Debug)]
pub(super) struct BlockLengths {
    /// What a page of records takes when it is stored.
    stored_bytes: u64,
}

impl Default for BlockLengths {
    fn default() -> BlockLengths {
        BlockLengths { stored_bytes: PAGE_BYTES }
    }
}

/// Blocks that take less than this for a page of records are taken to need this much: they are all trailer.
const STORED_BYTES_MIN: u64 = PAGE_BYTES / 16;

impl BlockLengths {
    /// How long a block may become, before compression, that is to begin at `offset`.
    pub(super) fn raw_bytes(&self, offset: u64) -> usize {
        let mut room = PAGE_BYTES - offset % PAGE_BYTES;
        if room < self.stored_bytes / 2 {
            // The rest of the page is too little for a block: the block runs over the end of the page and fills the next.
            room += PAGE_BYTES;
        }
        let blocks = ((room + self.stored_bytes / 2) / self.stored_bytes).max(1);
        let payload = (room / blocks).saturating_sub(TRAILER_BYTES as u64);
        let raw = payload * PAGE_BYTES / self.stored_bytes;
        // A block that compresses a little worse than the last one should fit all the same.
        let margin = if self.stored_bytes < PAGE_BYTES { raw / 32 } else { 0 };
        (raw - margin) as usize
    }

    /// The longest that a block of `raw` bytes may be after compression; otherwise it is stored plain. Compression must save a
    /// quarter, because every read pays for unpacking. If the last block was compressed, the next one was filled on the
    /// assumption that it would be too: plain, it would lie across the end of a page, so an eighth is enough.
    pub(super) const fn packed_max(&self, raw: usize) -> usize {
        if self.stored_bytes < PAGE_BYTES { raw - raw / 8 } else { raw - raw / 4 }
    }

    /// A block of `raw` bytes has become a payload of `stored` bytes.
    pub(super) fn learn(&mut self, raw: usize, stored: usize) {
        let stored_bytes = stored as u64 * PAGE_BYTES / raw.max(1) as u64;
        self.stored_bytes = stored_bytes.clamp(STORED_BYTES_MIN, PAGE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes blocks of records of `record` bytes that compress to about `percent`; answers how many blocks there are, how many
    /// lie across the end of a page, and their average length before compression.
    fn write(record: usize, percent: usize) -> (usize, usize, usize) {
        const BLOCKS: usize = 1000;
        let mut lengths = BlockLengths::default();
        let (mut offset, mut across, mut raw_bytes) = (0, 0, 0);
        for index in 0..BLOCKS {
            let raw = (lengths.raw_bytes(offset) / record).max(1) * record;
            // As the rule for what stays plain has it, for records that are not all the same.
            let packed = raw * (percent - 2 + index % 5) / 100;
            let payload = if packed > lengths.packed_max(raw) { raw } else { packed };
            let end = offset + (payload + TRAILER_BYTES) as u64;
            across += usize::from(offset / PAGE_BYTES != (end - 1) / PAGE_BYTES);
            lengths.learn(raw, payload);
            offset = end + padding(end) as u64;
            raw_bytes += raw;
        }
        (BLOCKS, across, raw_bytes / BLOCKS)
    }

    proptest! {
        #[test]
        fn blocks_of_small_records_lie_on_one_page(record in 20..200_usize, percent in 20..=100_usize) {
            let (blocks, across, raw) = write(record, percent);
            prop_assert!(across * 5 <= blocks, "{across} of {blocks}");
            prop_assert!((2 * BLOCK_BYTES / 3..3 * BLOCK_BYTES / 2).contains(&raw), "{raw} bytes");
        }

        #[test]
        fn no_history_makes_a_block_that_is_empty_or_huge(
            offset in 0..PAGE_BYTES,
            raw in 1..1_000_000_usize,
            percent in 0..200_usize,
        ) {
            let mut lengths = BlockLengths::default();
            lengths.learn(raw, raw * percent / 100);
            let next = lengths.raw_bytes(offset);
            prop_assert!((BLOCK_BYTES / 4..3 * BLOCK_BYTES).contains(&next), "{next} bytes");
        }
    }

    #[test]
    fn little_is_left_empty_and_much_is_not() {
        assert_eq!(padding(0), 0);
        assert_eq!(padding(PAGE_BYTES), 0);
        assert_eq!(padding(PAGE_BYTES - 1), 1);
        assert_eq!(padding(PAGE_BYTES - PADDING_BYTES_MAX), PADDING_BYTES_MAX as usize);
        assert_eq!(padding(PAGE_BYTES - PADDING_BYTES_MAX - 1), 0);
    }
}
