use ladoga_model::{HybridClock, Stamp};
use proptest::prelude::*;

use super::*;
use crate::table::{TableMeta, TableShared};

#[test]
fn a_tombstone_goes_only_when_nothing_older_is_left_or_can_come() {
    let version = |timestamp| Version { timestamp, node: 0 };
    let stamp = Stamp::new(version(10));
    let tombstone = Record { key: b"k", stamp, kind: Kind::Tombstone, value: b"" };
    assert!(may_drop(&tombstone, false, 11));
    assert!(!may_drop(&tombstone, true, 11));
    assert!(!may_drop(&tombstone, false, 10));
    let value = Record { kind: Kind::Value, ..tombstone };
    assert!(!may_drop(&value, false, u64::MAX));
}

#[test]
fn a_value_that_expires_loses_its_bytes_first_and_goes_once_all_have_closed_its_end() {
    let version = Version { timestamp: HybridClock::at_wall_ms(1_000), node: 0 };
    let stamp = Stamp { expires_at_ms: 50_000, ..Stamp::new(version) };
    let value = Record { key: b"k", stamp, kind: Kind::Value, value: b"value" };
    assert_eq!(without_expired_value(value, 49_999), value);
    let left = without_expired_value(value, 50_000);
    assert_eq!((left.kind, left.value, left.stamp), (Kind::Tombstone, &b""[..], stamp));
    let end = HybridClock::at_wall_ms(60_000);
    for record in [value, left] {
        assert!(!may_drop(&record, false, end));
        assert!(may_drop(&record, false, end + 1));
        assert!(!may_drop(&record, true, end + 1));
    }
    let forever = Record { stamp: Stamp::new(version), ..value };
    assert_eq!(without_expired_value(forever, u64::MAX), forever);
}

/// A table: its level, its smallest and its largest key, and the times of its oldest and its newest version.
type Given = (usize, [Vec<u8>; 2], [u64; 2]);

fn levels(shared: &Arc<TableShared>, tables: &[Given]) -> Levels {
    let table = |(number, (level, [smallest, largest], [oldest, newest])): (usize, &Given)| {
        let meta = TableMeta {
            records: 2,
            oldest: version(*oldest),
            newest: version(*newest),
            smallest: smallest.as_slice().into(),
            largest: largest.as_slice().into(),
            ..TableMeta::of_nothing(number as u64)
        };
        (*level, Table::new(shared, meta))
    };
    let tables: Vec<_> = tables.iter().enumerate().map(table).collect();
    Levels::default().with(&tables, &[])
}

const fn version(timestamp: u64) -> Version {
    Version { timestamp, node: 0 }
}

/// Each deletion that may go was compared with every table: in a store of 1 TiB that took two days for 100 million of them.
#[test]
fn how_many_tables_a_record_is_compared_with_does_not_grow_with_a_level() {
    let (env, _, _) = ladoga_env::sim::env(1);
    let shared = TableShared::on(env.disk);
    let compared = |count: u64| {
        let key = |n: u64| n.to_be_bytes().to_vec();
        let table = |n: u64| (1 + n as usize % 6, [key(n * 10), key(n * 10 + 9)], [1, 2]);
        let mut tables: Vec<_> = (0..count).map(table).collect();
        tables.push((0, [key(0), key(9)], [1, 2]));
        levels(&shared, &tables).tables_for(&key(5), 0..LEVELS).count()
    };
    assert_eq!((compared(1), compared(1_000)), (2, 2));
}

proptest! {
    #[test]
    fn what_may_be_somewhere_else_is_found_as_by_a_look_at_every_table(
        of_level_0 in proptest::collection::vec((0..20_u8, 0..20_u8), 0..4),
        below in proptest::collection::vec(proptest::collection::btree_set(0..20_u8, 0..8), LEVELS - 1),
        times in proptest::collection::vec((0..9_u64, 0..9_u64), 32),
        inputs in proptest::collection::vec(0..12_u64, 0..4),
        output_level in 0..LEVELS,
    ) {
        let (env, _, _) = ladoga_env::sim::env(1);
        let of_level_0 = of_level_0.into_iter().map(|(a, b)| (0, [vec![a.min(b)], vec![a.max(b)]]));
        let below = below.into_iter().enumerate().flat_map(|(level, ends)| {
            let ends: Vec<_> = ends.into_iter().collect();
            let pairs: Vec<_> = ends.chunks_exact(2).map(|pair| [vec![pair[0]], vec![pair[1]]]).collect();
            pairs.into_iter().map(move |pair| (level + 1, pair))
        });
        let times = times.into_iter().map(|(a, b)| [a.min(b), a.max(b)]);
        let tables: Vec<_> = of_level_0.chain(below).zip(times).map(|((level, keys), times)| (level, keys, times)).collect();
        let levels = levels(&TableShared::on(env.disk), &tables);
        let surroundings =
            Surroundings { levels: &levels, memtables: Vec::new(), inputs: &inputs, output_level, trims: false };
        for (key, timestamp) in (0..20_u8).flat_map(|key| (0..9).map(move |time| (key, time))) {
            let expected = levels.iter().any(|(level, table)| {
                let meta = table.meta();
                let is_read = inputs.contains(&meta.number);
                meta.covers(&[key])
                    && (level > output_level || meta.oldest < version(timestamp) && !is_read)
            });
            prop_assert_eq!(surroundings.may_hold_older(&[key], version(timestamp)), expected);
        }
    }
}
