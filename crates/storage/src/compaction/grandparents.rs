use std::sync::Arc;

use crate::table::Table;

/// The tables of the level below that of the outputs, the grandparents. An output is closed once it overlaps many of them: a few
/// deletions from all over a large store would come to one table, and the next compaction would take the whole level along.
#[derive(Default)]
pub(crate) struct Grandparents {
    /// The largest key of each and its size, in the order of the keys.
    tables: Vec<(Arc<[u8]>, u64)>,
    overlap_bytes_max: u64,
    /// How many of them are behind.
    passed: usize,
    /// The size of those that were passed since the open output was begun.
    overlapped_bytes: u64,
}

impl Grandparents {
    /// `tables` are in key order and share no key.
    pub(crate) fn new(tables: &[Arc<Table>], overlap_bytes_max: u64) -> Grandparents {
        let tables = tables.iter().map(|table| (table.meta().largest.clone(), table.meta().file_bytes));
        Grandparents { tables: tables.collect(), overlap_bytes_max, ..Grandparents::default() }
    }

    /// Goes on to the next key. Answers whether an output that is open is to be closed before it.
    pub(super) fn pass(&mut self, key: &[u8]) -> bool {
        while let Some((_, bytes)) = self.tables.get(self.passed).filter(|(largest, _)| **largest < *key) {
            self.overlapped_bytes = self.overlapped_bytes.saturating_add(*bytes);
            self.passed += 1;
        }
        self.overlapped_bytes > self.overlap_bytes_max
    }

    /// An output begins with the key that was passed last.
    pub(super) const fn begin_output(&mut self) {
        self.overlapped_bytes = 0;
    }
}
