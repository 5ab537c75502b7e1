use std::sync::Arc;

use bytes::Bytes;
use ladoga_storage::{Engine, Error, Range, Value};

use super::local::Disk;
use super::read_error;
use crate::store::{CellContent, CellFormat, Later, Piece, Pieces, StoreError};

/// What is read at once, before the last cell of a piece.
const CELL_PIECE_BYTES: usize = 32 << 10;

/// The cells of a range, deletions included, many to a piece.
pub(super) struct CellPieces {
    reader: Reader,
    disk: Disk,
}

struct Reader {
    format: CellFormat,
    state: State,
}

enum State {
    /// Nothing was read; the snapshot is not taken.
    Start { engine: Arc<Engine>, start: Bytes, end: Option<Bytes> },
    /// Between cells.
    Cells(Range),
    /// After the last one.
    End,
}

impl CellPieces {
    pub(super) fn new(
        engine: Arc<Engine>,
        start: Bytes,
        end: Option<Bytes>,
        format: CellFormat,
        disk: Disk,
    ) -> CellPieces {
        CellPieces { reader: Reader { format, state: State::Start { engine, start, end } }, disk }
    }
}

impl Pieces for CellPieces {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let CellPieces { mut reader, disk } = *self;
        if matches!(reader.state, State::End) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let read = disk.submit(move || {
            let bytes = reader.read().map_err(|error| read_error(&error))?;
            Ok((bytes, reader))
        });
        Box::pin(async move {
            let (bytes, reader) = read.await?;
            let rest = CellPieces { reader, disk };
            Ok((!bytes.is_empty()).then(|| (Bytes::from(bytes), Box::new(rest) as Box<dyn Pieces>)))
        })
    }
}

impl Reader {
    /// The next cells; none at the end.
    fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(CELL_PIECE_BYTES);
        let mut range = match std::mem::replace(&mut self.state, State::End) {
            State::Start { engine, start, end } => engine.snapshot().range(&start, end.as_deref()),
            State::Cells(range) => range,
            State::End => return Ok(out),
        };
        while out.len() < CELL_PIECE_BYTES {
            let Some((key, cell)) = range.next_cell()? else { return Ok(out) };
            let content = match &cell.value {
                None => CellContent::Tombstone,
                Some(Value::Inline(bytes)) => CellContent::Value(bytes),
                Some(Value::Blob(blob)) => CellContent::Large(blob.len()),
            };
            (self.format)(&mut out, &key, cell.stamp, content);
        }
        self.state = State::Cells(range);
        Ok(out)
    }
}
