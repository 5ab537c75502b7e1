//! Ranges over long values hold few of their blocks.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use ladoga_env::Rng;
use ladoga_env::sim::{self, SimRng};
use ladoga_model::{Stamp, Version};

use super::range::Side;
use crate::{Background, Durability, Engine, Options, Value, WriteBatch};

const KEYS: u64 = 200;
/// What a range holds with a budget of 64 MiB.
const HELD_BYTES: usize = 128 << 10;
const LONGEST_BYTES: u64 = 100 << 10;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Values of all lengths, and deletions, in memtables and in tables of several levels.
fn engine(rng: &SimRng) -> (Engine, Model) {
    let (env, _, _) = sim::env(1);
    let options = Options {
        background: Background::Manual,
        memtable_bytes: Some(1 << 20),
        table_bytes: Some(512 << 10),
        level_1_bytes: Some(2 << 20),
        ..Options::new(64 << 20, Durability::Never)
    };
    let engine = Engine::open(env, Path::new("/data"), options).expect("a new store");
    let mut model = Model::new();
    for round in 0..700_u64 {
        let key = format!("key{:03}", rng.below(KEYS)).into_bytes();
        let (mut batch, stamp) = (WriteBatch::new(), Stamp::new(Version { timestamp: round + 1, node: 0 }));
        if rng.below(8) == 0 {
            batch.delete(&key, stamp);
            model.remove(&key);
        } else {
            let length = if rng.below(3) == 0 { rng.below(900) } else { rng.below(LONGEST_BYTES) };
            let value = vec![round as u8; length as usize];
            batch.put(&key, stamp, &value);
            model.insert(key, value);
        }
        engine.write_group(&[batch]).expect("room");
        // Fewer than there are to be done, so that level 0 has some tables.
        if round % 15 == 0 {
            engine.step().expect("a sound disk");
        }
    }
    let levels = engine.statistics().levels;
    assert!(levels[0].tables > 1 && levels[1].tables > 0, "{levels:?}");
    (engine, model)
}

#[test]
fn a_range_that_rests_holds_little_and_misses_nothing() {
    let rng = SimRng::new(7);
    let (engine, model) = engine(&rng);
    let expected: Vec<_> = model.iter().collect();
    for side in [Side::Front, Side::Back] {
        for rests_every in [1, 2, 5, u64::MAX] {
            let mut range = engine.snapshot().range(b"", None);
            let mut found: Vec<(Bytes, Bytes)> = Vec::new();
            loop {
                let next = if side == Side::Front { range.next() } else { range.next_back() };
                let Some((key, value)) = next.expect("sound") else { break };
                let Value::Inline(value) = value else { panic!("no value is large") };
                assert!(range.held_bytes() < HELD_BYTES + 2 * LONGEST_BYTES as usize);
                found.push((key, value));
                if (found.len() as u64).is_multiple_of(rests_every) {
                    range.rest().expect("sound");
                    range.rest().expect("sound");
                    assert!(range.held_bytes() <= HELD_BYTES + (8 << 10), "{}", range.held_bytes());
                }
            }
            if side == Side::Back {
                found.reverse();
            }
            assert_eq!(found.len(), expected.len());
            for ((key, value), (expected_key, expected_value)) in found.iter().zip(&expected) {
                assert!(key == expected_key.as_slice() && value == expected_value.as_slice(), "{side:?}");
            }
        }
    }
    engine.close().expect("a store that closes");
}
