use ladoga_storage::{BLOB_PIECE_BYTES, Blob, Error, Range, Value};

use super::pieces::{RangeReader, RangeStart};
use crate::store::RecordFormat;

/// What is read of a range at once, as a rule; a piece of a large value comes on top.
const RANGE_PIECE_BYTES: usize = 64 << 10;

/// Reads the records of a range.
pub(super) struct RecordReader {
    format: RecordFormat,
    state: State,
}

enum State {
    Start(RangeStart),
    /// Between records.
    Records(Range),
    /// In a large value: as much of it has been read.
    Value {
        range: Range,
        blob: Blob,
        offset: u64,
    },
    /// After the last record.
    End,
}

impl RangeReader for RecordReader {
    fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(RANGE_PIECE_BYTES);
        while out.len() < RANGE_PIECE_BYTES {
            self.state = match std::mem::replace(&mut self.state, State::End) {
                State::Start(start) => State::Records(start.begin()),
                State::Records(range) => self.read_record(range, &mut out)?,
                State::Value { range, blob, offset } => self.read_value(range, blob, offset, &mut out)?,
                State::End => break,
            };
        }
        Ok(out)
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::End)
    }
}

impl RecordReader {
    pub(super) const fn new(start: RangeStart, format: RecordFormat) -> RecordReader {
        RecordReader { format, state: State::Start(start) }
    }

    fn read_record(&self, mut range: Range, out: &mut Vec<u8>) -> Result<State, Error> {
        let Some((key, value)) = range.next()? else { return Ok(State::End) };
        (self.format.begin)(out, &key, value.len());
        match value {
            Value::Inline(bytes) => {
                out.extend_from_slice(&bytes);
                (self.format.end)(out);
                Ok(State::Records(range))
            }
            Value::Blob(blob) => Ok(State::Value { range, blob, offset: 0 }),
        }
    }

    fn read_value(&self, range: Range, blob: Blob, offset: u64, out: &mut Vec<u8>) -> Result<State, Error> {
        out.reserve(BLOB_PIECE_BYTES);
        let piece = blob.read_piece(offset)?;
        out.extend_from_slice(&piece);
        let offset = offset + piece.len() as u64;
        if offset < blob.len() {
            return Ok(State::Value { range, blob, offset });
        }
        (self.format.end)(out);
        Ok(State::Records(range))
    }
}
