//! Values that look like parts of a log: a client's value must never be taken for a frame.

use ladoga_storage::{Durability, WriteBatch, read_value};

use crate::support::{Machine, tiny_options, version};

/// A frame as the log encodes them, of log `number`, made by a client that knows the format.
fn frame(number: u64, sequence: u64) -> Vec<u8> {
    let mut covered = Vec::new();
    covered.extend_from_slice(&0_u32.to_le_bytes());
    covered.extend_from_slice(&sequence.to_le_bytes());
    covered.extend_from_slice(&(sequence - 1).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&number.to_le_bytes()), &covered);
    [&0x4c46_5241_u32.to_le_bytes()[..], &crc.to_le_bytes(), &covered].concat()
}

#[test]
fn values_that_look_like_frames_do_not_keep_a_store_from_opening() {
    let machine = Machine::new(1, tiny_options(Durability::Always));
    let engine = machine.open().unwrap();
    let value: Vec<u8> = (1..40).flat_map(|number| frame(number, 1_000_000)).collect();
    for n in 0..40_u64 {
        let mut batch = WriteBatch::new();
        batch.put(&n.to_be_bytes(), ladoga_model::Stamp::new(version(n + 1)), &value);
        engine.write_group(&[batch]).unwrap();
        // A segment whose records are in a table is the next one again, with all that it held.
        engine.step().unwrap();
    }
    drop(engine);
    let engine = machine.open().unwrap();
    for n in 0..40_u64 {
        let found = engine.get(&n.to_be_bytes()).unwrap().expect("it was acknowledged");
        let found = read_value(&found).unwrap();
        assert_eq!(found, value, "{n}");
    }
}
