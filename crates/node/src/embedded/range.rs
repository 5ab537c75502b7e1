use std::sync::Arc;

use bytes::Bytes;
use ladoga_storage::{BLOB_PIECE_BYTES, Blob, Engine, Error, Range, Value};

use super::local::Disk;
use super::read_error;
use crate::store::{Later, Piece, Pieces, RecordFormat, StoreError};

/// What is read of a range at once, as a rule; a piece of a large value comes on top.
const RANGE_PIECE_BYTES: usize = 64 << 10;

/// The records of a range, many to a piece.
pub(super) struct RangePieces {
    reader: Reader,
    disk: Disk,
}

/// What reads them, on a thread that may wait.
struct Reader {
    format: RecordFormat,
    state: State,
}

enum State {
    /// Nothing was read; the snapshot is not taken.
    Start { engine: Arc<Engine>, start: Bytes, end: Option<Bytes> },
    /// Between records.
    Records(Range),
    /// In a large value: as much of it has been read.
    Value { range: Range, blob: Blob, offset: u64 },
    /// After the last record.
    End,
}

impl RangePieces {
    pub(super) fn new(
        engine: Arc<Engine>,
        start: Bytes,
        end: Option<Bytes>,
        format: RecordFormat,
        disk: Disk,
    ) -> RangePieces {
        RangePieces { reader: Reader { format, state: State::Start { engine, start, end } }, disk }
    }
}

impl Pieces for RangePieces {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let RangePieces { mut reader, disk } = *self;
        if matches!(reader.state, State::End) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let read = disk.submit(move || {
            let bytes = reader.read().map_err(|error| read_error(&error))?;
            Ok((bytes, reader))
        });
        Box::pin(async move {
            let (bytes, reader) = read.await?;
            let rest = RangePieces { reader, disk };
            Ok((!bytes.is_empty()).then(|| (Bytes::from(bytes), Box::new(rest) as Box<dyn Pieces>)))
        })
    }
}

impl Reader {
    /// The next records; none at the end.
    fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(RANGE_PIECE_BYTES);
        while out.len() < RANGE_PIECE_BYTES {
            self.state = match std::mem::replace(&mut self.state, State::End) {
                State::Start { engine, start, end } => {
                    State::Records(engine.snapshot().range(&start, end.as_deref()))
                }
                State::Records(range) => self.read_record(range, &mut out)?,
                State::Value { range, blob, offset } => self.read_value(range, blob, offset, &mut out)?,
                State::End => break,
            };
        }
        Ok(out)
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
