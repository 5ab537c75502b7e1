use ladoga_storage::{BLOB_PIECE_BYTES, Blob, Cell, Error, Range, RangeStep, Side, Value};

use super::pieces::RangeReader;
use crate::store::RecordFormat;

/// Cells that are looked at for one piece, or KiB of their values: a few milliseconds, after which other reads have their turn.
const LOOKS_MAX: u32 = 16 << 10;

/// What a format may have around the key and the value of a record, if neither is encoded.
const FRAME_BYTES: usize = 64;

/// Reads the records of a range.
pub(super) struct RecordReader {
    format: Box<dyn RecordFormat>,
    side: Side,
    /// How many records it may still read.
    left: u64,
    /// The large value at which the range stands, and how many of its bytes have been read.
    value: Option<(Blob, u64)>,
}

impl RangeReader for RecordReader {
    /// A piece of a large value comes on top.
    const PIECE_BYTES: usize = 64 << 10;

    fn read(&mut self, range: &mut Range, out: &mut Vec<u8>) -> Result<bool, Error> {
        let mut looks = LOOKS_MAX;
        while out.len() < RecordReader::PIECE_BYTES {
            if let Some((blob, offset)) = self.value.take() {
                self.read_value(blob, offset, out)?;
                continue;
            }
            let step = if self.left == 0 { RangeStep::End } else { range.step(self.side, &mut looks)? };
            match step {
                RangeStep::Found(key, cell) => self.read_record(&key, cell, out),
                RangeStep::NotYet => return Ok(true),
                RangeStep::End => {
                    self.format.end(out);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

impl RecordReader {
    pub(super) fn new(format: Box<dyn RecordFormat>, side: Side, limit: Option<u64>) -> RecordReader {
        RecordReader { format, side, left: limit.unwrap_or(u64::MAX), value: None }
    }

    /// Writes a record, as far as its value if that is large.
    fn read_record(&mut self, key: &[u8], cell: Cell, out: &mut Vec<u8>) {
        self.left -= 1;
        let Cell { stamp, value: Some(value) } = cell else { return };
        match value {
            Value::Inline(bytes) => {
                // A piece may wait for its client for long, and takes no more than it needs. One with a long value takes room for twice as
                // much, and uses none of that: the allocator gives such pieces back sooner than those as long as a block.
                if self.format.wants_values() && bytes.len() < RecordReader::PIECE_BYTES {
                    out.reserve_exact(key.len() + bytes.len() + FRAME_BYTES);
                }
                self.format.record(out, key, stamp, &bytes);
            }
            Value::Large(_) if !self.format.wants_values() => self.format.record(out, key, stamp, &[]),
            Value::Large(blob) => {
                self.format.begin_large(out, key, stamp, blob.len());
                self.value = Some((blob, 0));
            }
        }
    }

    fn read_value(&mut self, blob: Blob, offset: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        out.reserve(BLOB_PIECE_BYTES);
        let piece = blob.read_piece(offset)?;
        self.format.large(out, &piece);
        let offset = offset + piece.len() as u64;
        if offset < blob.len() {
            self.value = Some((blob, offset));
        } else {
            self.format.end_large(out);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ladoga_env::sim;
    use ladoga_model::{self as model, Stamp, Version};
    use ladoga_storage::{Durability, Engine, Options, WriteBatch};

    use super::super::cells::CellReader;
    use super::*;

    /// Keys, each on a line.
    struct Keys;

    impl RecordFormat for Keys {
        fn wants_values(&self) -> bool {
            false
        }

        fn record(&mut self, out: &mut Vec<u8>, key: &[u8], _: Stamp, _: &[u8]) {
            out.extend_from_slice(key);
            out.push(b'\n');
        }

        fn begin_large(&mut self, _: &mut Vec<u8>, _: &[u8], _: Stamp, _: u64) {
            unreachable!("no values are wanted");
        }

        fn large(&mut self, _: &mut Vec<u8>, _: &[u8]) {}

        fn end_large(&mut self, _: &mut Vec<u8>) {}

        fn end(&mut self, out: &mut Vec<u8>) {
            out.extend_from_slice(b"end");
        }
    }

    /// A value before so many deletions, and one behind them.
    fn with_deletions(count: u64) -> Engine {
        let (env, _, _) = sim::env(1);
        let engine = Engine::open(env, Path::new("/data"), Options::new(64 << 20, Durability::Never));
        let engine = engine.expect("room");
        let stamp = |timestamp| Stamp::new(Version { timestamp, node: 0 });
        let numbers: Vec<u64> = (0..count).collect();
        for some in numbers.chunks(1_000) {
            let mut batch = WriteBatch::new();
            for number in some {
                batch.delete(format!("k{number:08}").as_bytes(), stamp(number + 1));
            }
            engine.write_group(&[batch]).expect("room");
        }
        let mut batch = WriteBatch::new();
        batch.put(b"a", stamp(count + 1), b"value");
        batch.put(b"z", stamp(count + 2), b"value");
        engine.write_group(&[batch]).expect("room");
        engine
    }

    #[test]
    fn many_deletions_are_many_turns() {
        const DELETIONS: u64 = LOOKS_MAX as u64 * 5 / 2;
        let engine = with_deletions(DELETIONS);
        for (side, keys) in [(Side::Front, ["a\n", "z\nend"]), (Side::Back, ["z\n", "a\nend"])] {
            let mut range = engine.snapshot().range(b"", None);
            let mut reader = RecordReader::new(Box::new(Keys), side, None);
            let mut pieces = Vec::new();
            let mut has_more = true;
            while has_more {
                let mut piece = Vec::new();
                has_more = reader.read(&mut range, &mut piece).expect("sound");
                pieces.push(String::from_utf8(piece).expect("text"));
            }
            assert_eq!(pieces, [keys[0], "", keys[1]], "from {side:?}");
            let mut reader = RecordReader::new(Box::new(Keys), side, Some(1));
            let mut piece = Vec::new();
            let mut range = engine.snapshot().range(b"", None);
            assert!(!reader.read(&mut range, &mut piece).expect("sound"), "it stops at its limit");
            assert_eq!(piece, format!("{}end", keys[0]).into_bytes(), "from {side:?}");
        }
        engine.close().expect("a store that closes");
    }

    /// A count of long values kept a thread busy for gigabytes of them.
    #[test]
    fn long_values_that_nobody_wants_are_many_turns_too() {
        const VALUES: usize = 200;
        let (env, _, _) = sim::env(1);
        let engine = Engine::open(env, Path::new("/data"), Options::new(1 << 30, Durability::Never));
        let engine = engine.expect("room");
        let value = vec![b'v'; 200 << 10];
        for number in 0..VALUES {
            let stamp = Stamp::new(Version { timestamp: number as u64 + 1, node: 0 });
            let mut batch = WriteBatch::new();
            batch.put(format!("k{number:03}").as_bytes(), stamp, &value);
            engine.write_group(&[batch]).expect("room");
        }
        let keys: Vec<String> = (0..VALUES).map(|number| format!("k{number:03}\n")).collect();
        let all = keys.concat();
        let reader = RecordReader::new(Box::new(Keys), Side::Front, None);
        assert_eq!(read_all(&engine, reader), (format!("{all}end"), 3), "40 MiB, 16 MiB at a time");
        let reader = CellReader { format: put_key, side: Side::Front };
        assert_eq!(read_all(&engine, reader), (all, 3), "40 MiB, 16 MiB at a time");
        engine.close().expect("a store that closes");
    }

    /// What a reader reads of all keys, and in how many turns.
    fn read_all(engine: &Engine, mut reader: impl RangeReader) -> (String, usize) {
        let mut range = engine.snapshot().range(b"", None);
        let (mut out, mut turns, mut has_more) = (Vec::new(), 0, true);
        while has_more {
            let mut piece = Vec::new();
            has_more = reader.read(&mut range, &mut piece).expect("sound");
            out.extend_from_slice(&piece);
            turns += 1;
        }
        (String::from_utf8(out).expect("text"), turns)
    }

    fn put_key(out: &mut Vec<u8>, key: &[u8], _: model::Cell<&[u8], u64>) {
        out.extend_from_slice(key);
        out.push(b'\n');
    }
}
