use std::collections::BTreeMap;

use ladoga_model::{Stamp, Version};
use proptest::prelude::*;

use super::*;

const SEED: u64 = 0x2545_f491_4f6c_dd1d;

fn record<'a>(key: &'a [u8], timestamp: u64, value: &'a [u8]) -> Record<'a> {
    let stamp = Stamp::new(Version { timestamp, node: 0 });
    Record { key, stamp, kind: Kind::Value, value }
}

fn get<'a>(table: &'a Memtable, key: &[u8], sequence: u64) -> Option<&'a [u8]> {
    table.get(key_hash(key), key, sequence).map(|record| record.value)
}

#[test]
fn the_newest_version_wins_in_whatever_order_versions_arrive() {
    let mut writer = MemtableWriter::new(1 << 16, 1, SEED);
    writer.insert(1, &record(b"k", 20, b"second")).expect("room");
    writer.insert(2, &record(b"k", 10, b"first")).expect("room");
    assert_eq!(get(writer.table(), b"k", u64::MAX), Some(&b"second"[..]));
    writer.insert(3, &record(b"k", 30, b"third")).expect("room");
    assert_eq!(get(writer.table(), b"k", u64::MAX), Some(&b"third"[..]));
    assert_eq!(get(writer.table(), b"k", 2), Some(&b"second"[..]));
    assert_eq!(get(writer.table(), b"k", 0), None);
    assert_eq!((writer.table().keys(), writer.table().records()), (1, 3));
}

#[test]
fn keys_that_were_chosen_by_their_hashes_share_no_bucket() {
    let mut writer = MemtableWriter::new(1 << 18, 1, SEED);
    let buckets = writer.table().buckets.len() as u64;
    // Alike in the bits by which tables of a power of two are mostly indexed, at either end.
    let low = |hash: u64| hash.is_multiple_of(buckets);
    let high = |hash: u64| hash.leading_zeros() >= buckets.trailing_zeros();
    let alike = (0_u64..).map(u64::to_be_bytes).filter(|key| low(key_hash(key)) || high(key_hash(key)));
    // One in a thousand is: to find many takes Miri an hour.
    let count = if cfg!(miri) { 5 } else { 1000 };
    for key in alike.take(count) {
        writer.insert(1, &record(&key, 1, b"")).expect("room");
    }
    let table = writer.table();
    let length = |bucket: &AtomicU32| {
        let some = |offset: u32| (offset != 0).then_some(offset);
        let first = some(bucket.load(Ordering::Relaxed));
        std::iter::successors(first, |&offset| some(KeyNode::at(&table.arena, offset).next())).count()
    };
    let longest = table.buckets.iter().map(length).max();
    assert!(longest < Some(12), "{longest:?} of {count} keys in one of {buckets} buckets");
}

#[test]
fn what_has_room_fits() {
    let mut writer = MemtableWriter::new(1 << 12, 1, SEED);
    let value = [7; 33];
    let mut inserted = 0_u32;
    loop {
        let key = inserted.to_be_bytes();
        let record = record(&key, 1, &value);
        if !writer.has_room(1, record.encoded_bytes()) {
            break;
        }
        writer.insert(1, &record).expect("it was said to have room");
        inserted += 1;
    }
    assert!(inserted > 20);
    let mut full = false;
    for more in inserted..inserted + 10 {
        full |= writer.insert(1, &record(&more.to_be_bytes(), 1, &value)) == Err(MemtableFull);
    }
    assert!(full);
    assert_eq!(writer.table().cursors(u64::MAX).len(), 1);
}

#[test]
fn a_memtable_in_used_memory_has_nothing_of_the_one_before() {
    let fill = |writer: &mut MemtableWriter, timestamp: u64| {
        for key in 0..20_u8 {
            writer.insert(timestamp, &record(&[key, 1], timestamp, &[timestamp as u8; 40])).expect("room");
        }
    };
    let mut writer = MemtableWriter::new(1 << 13, 1, SEED);
    fill(&mut writer, 9);
    let MemtableWriter { table } = writer;
    let reader = table.clone();
    assert!(Spare::of(table).is_none(), "a reader has it still");
    let table = reader;
    let mut writer = MemtableWriter::within(Spare::of(table).expect("nobody else has it"), 2, SEED);
    let table = writer.table().clone();
    assert_eq!((table.wal_number(), table.keys(), table.records()), (2, 0, 0));
    assert_eq!(get(&table, &[3, 1], u64::MAX), None);
    // An older version than the one that was here wins, as nothing is here.
    fill(&mut writer, 5);
    assert_eq!(get(&table, &[3, 1], u64::MAX), Some(&[5; 40][..]));
    assert_eq!((table.keys(), table.records()), (20, 20));
}

#[test]
fn readers_see_whole_records_while_a_writer_writes() {
    let mut writer = MemtableWriter::new(1 << 18, 1, SEED);
    let table = writer.table().clone();
    let count = if cfg!(miri) { 50 } else { 2_000_u64 };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seen = 0;
            while seen < count {
                let last = get(&table, b"key", u64::MAX).map_or(0, |value| {
                    let (chunks, _) = value.as_chunks::<8>();
                    assert!(chunks.iter().all(|chunk| *chunk == chunks[0]), "torn value");
                    u64::from_le_bytes(chunks[0])
                });
                assert!(last >= seen, "a read went back in time");
                seen = last;
                std::thread::yield_now();
            }
        });
        for version in 1..=count {
            let value = version.to_le_bytes().repeat(4);
            writer.insert(version, &record(b"key", version, &value)).expect("room");
        }
    });
}

/// A range asked while it was written to, and then, once it was flushed, for its tables: they have what came after the range.
#[test]
fn no_tables_read_the_same_as_a_memtable_that_was_not_sealed() {
    let table = MemtableWriter::new(1 << 12, 1, SEED).table().clone();
    table.flushed_to(Vec::new());
    assert!(table.tables_at(5).is_none());
    table.seal(6);
    assert!(table.tables_at(4).is_none(), "group 5 came later");
    assert!(table.tables_at(5).is_some());
}

fn walk(table: &Arc<Memtable>, sequence: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut seen = BTreeMap::new();
    for mut cursor in table.cursors(sequence) {
        let mut forward = Vec::new();
        cursor.seek(b"");
        while let Some(record) = cursor.record() {
            forward.push((record.key.to_vec(), record.value.to_vec()));
            cursor.next();
        }
        assert!(forward.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let mut backward = Vec::new();
        cursor.seek_before(None);
        while let Some(record) = cursor.record() {
            backward.push((record.key.to_vec(), record.value.to_vec()));
            cursor.previous();
        }
        backward.reverse();
        assert_eq!(forward, backward);
        seen.extend(forward);
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 2 } else { 64 }, ..ProptestConfig::default() })]
    #[test]
    fn it_is_a_map_at_every_sequence(
        writes in proptest::collection::vec((proptest::collection::vec(97..100_u8, 1..12), 1..50_u64), 1..60),
        looks in proptest::collection::vec(any::<bool>(), 60),
    ) {
        let mut writer = MemtableWriter::new(1 << 16, 1, SEED);
        let mut model: BTreeMap<Vec<u8>, (u64, Vec<u8>)> = BTreeMap::new();
        let mut history = Vec::new();
        for (index, (key, timestamp)) in writes.iter().enumerate() {
            let sequence = index as u64 + 1;
            let value = sequence.to_string().into_bytes();
            writer.insert(sequence, &record(key, *timestamp, &value)).expect("room");
            let slot = model.entry(key.clone()).or_default();
            if *timestamp > slot.0 {
                *slot = (*timestamp, value);
            }
            history.push(model.clone());
            if looks[index] {
                walk(writer.table(), u64::MAX);
            }
        }
        for (index, model) in history.iter().enumerate() {
            let expected: BTreeMap<_, _> = model.iter().map(|(k, (_, v))| (k.clone(), v.clone())).collect();
            prop_assert_eq!(&walk(writer.table(), index as u64 + 1), &expected);
        }
        let mut sorted = writer.table().sorted();
        sorted.seek(b"");
        let first = model.keys().next().map(Vec::as_slice);
        prop_assert_eq!(sorted.record().map(|record| record.key), first);
    }
}
