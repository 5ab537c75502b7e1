use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;

/// Tables of the last level that were written anew without their deletions, and still are mostly deletions: memtables had the same keys.
/// They are left alone until one of those is flushed. Another attempt would come to the same, again and again.
#[derive(Default)]
pub(super) struct StillDead(Mutex<BTreeMap<u64, u64>>);

impl StillDead {
    /// Notes tables, and the log of the oldest memtable that there was; forgets tables that are gone.
    pub(super) fn note(&self, tables: &[u64], oldest_log: u64, is_living: impl Fn(u64) -> bool) {
        let mut noted = self.0.lock();
        noted.retain(|table, _| is_living(*table));
        noted.extend(tables.iter().map(|&table| (table, oldest_log)));
    }

    /// Those for which the same memtables are there still.
    pub(super) fn with(&self, oldest_log: u64) -> BTreeSet<u64> {
        let noted = self.0.lock();
        noted.iter().filter(|(_, log)| **log == oldest_log).map(|(table, _)| *table).collect()
    }
}
