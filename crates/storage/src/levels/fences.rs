use std::sync::Arc;

use crate::coding::{common_prefix, head_u64};
use crate::prefixes::{PrefixTree, prefetch_from};
use crate::table::Table;

/// The smallest and largest keys of a level whose tables do not overlap, side by side in memory: a search through hundreds of
/// tables looks into only the one that it finds.
#[derive(Debug, Default)]
pub(super) struct Fences {
    /// What all the smallest and largest keys begin with, and so everything between them.
    shared: Box<[u8]>,
    /// Of each table, the eight bytes behind that.
    smallest: Box<[u64]>,
    largest: PrefixTree,
}

impl Fences {
    /// Of tables in the order of their keys.
    pub(super) fn of(tables: &[Arc<Table>]) -> Fences {
        let (Some(first), Some(last)) = (tables.first(), tables.last()) else { return Fences::default() };
        let smallest = &first.meta().smallest;
        let shared = common_prefix(smallest, &last.meta().largest);
        let prefixes = |key: fn(&Table) -> &[u8]| -> Vec<u64> {
            tables.iter().map(|table| head_u64(&key(table)[shared..])).collect()
        };
        Fences {
            shared: smallest[..shared].into(),
            smallest: prefixes(|table| &table.meta().smallest).into(),
            largest: PrefixTree::of(&prefixes(|table| &table.meta().largest)),
        }
    }

    /// The one of these tables that can hold `key`.
    #[inline]
    pub(super) fn find<'a>(&self, tables: &'a [Arc<Table>], key: &[u8]) -> Option<&'a Arc<Table>> {
        let head = head_u64(key.strip_prefix(&*self.shared)?);
        // If the heads are equal, the keys themselves decide.
        let equal = self.largest.equal(head, |near| prefetch_from(tables, near));
        let index = equal.start + tables[equal].partition_point(|table| *table.meta().largest < *key);
        let table = tables.get(index)?;
        let smallest = self.smallest[index];
        (smallest < head || smallest == head && *table.meta().smallest <= *key).then_some(table)
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::Version;
    use proptest::prelude::*;

    use super::*;
    use crate::table::{Expiries, TableMeta, TableShared};

    fn tables(ranges: &[(Vec<u8>, Vec<u8>)]) -> Vec<Arc<Table>> {
        let (env, _, _) = ladoga_env::sim::env(1);
        let shared = TableShared::on(env.disk);
        let table = |(number, (smallest, largest)): (usize, &(Vec<u8>, Vec<u8>))| {
            let meta = TableMeta {
                number: number as u64,
                file_bytes: 0,
                records: 1,
                tombstones: 0,
                blob_bytes: 0,
                newest: Version::ZERO,
                oldest: Version::ZERO,
                smallest: smallest.as_slice().into(),
                largest: largest.as_slice().into(),
                blobs: Vec::new(),
                expiries: Expiries::default(),
            };
            Table::new(&shared, meta)
        };
        ranges.iter().enumerate().map(table).collect()
    }

    fn check(ranges: &[(Vec<u8>, Vec<u8>)], keys: impl IntoIterator<Item = Vec<u8>>) {
        let tables = tables(ranges);
        let fences = Fences::of(&tables);
        let ends = ranges.iter().flat_map(|(smallest, largest)| [smallest.clone(), largest.clone()]);
        for key in keys.into_iter().chain(ends) {
            let found = fences.find(&tables, &key).map(|table| table.meta().number as usize);
            let expected = ranges.iter().position(|(smallest, largest)| *smallest <= key && key <= *largest);
            assert_eq!(found, expected, "{key:?}");
        }
    }

    #[test]
    fn hundreds_of_tables_and_none() {
        check(&[], [b"a".to_vec()]);
        let key = |n: u32| format!("key:{n:08}").into_bytes();
        let ranges: Vec<_> = (0..700).map(|n| (key(n * 10), key(n * 10 + 5))).collect();
        check(&ranges, (0..7100).map(key).chain([b"a".to_vec(), b"key".to_vec(), b"z".to_vec()]));
    }

    proptest! {
        #[test]
        fn the_one_table_is_found(
            ends in proptest::collection::btree_set((0..3_usize, proptest::collection::vec(97..100_u8, 0..5)), 2..90),
            keys in proptest::collection::vec((0..3_usize, proptest::collection::vec(96..101_u8, 0..6)), 20),
        ) {
            let whole = |(run, rest): (usize, Vec<u8>)| [[&b"a"[..], b"aaaaaaaaaa", b"aaaaaaaaab"][run], &rest].concat();
            let mut ends: Vec<Vec<u8>> = ends.into_iter().map(whole).collect();
            ends.sort_unstable();
            ends.dedup();
            let ranges: Vec<_> =
                ends.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
            check(&ranges, keys.into_iter().map(whole));
        }
    }
}
