use ladoga_storage::{Error, Range, Value};

use super::pieces::{RangeReader, RangeStart};
use crate::store::{CellContent, CellFormat};

/// What is read at once, before the last cell of a piece.
const CELL_PIECE_BYTES: usize = 32 << 10;

/// Reads the cells of a range, deletions included.
pub(super) struct CellReader {
    format: CellFormat,
    state: State,
}

enum State {
    Start(RangeStart),
    /// Between cells.
    Cells(Range),
    /// After the last one.
    End,
}

impl CellReader {
    pub(super) const fn new(start: RangeStart, format: CellFormat) -> CellReader {
        CellReader { format, state: State::Start(start) }
    }
}

impl RangeReader for CellReader {
    fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut out = Vec::with_capacity(CELL_PIECE_BYTES);
        let mut range = match std::mem::replace(&mut self.state, State::End) {
            State::Start(start) => start.begin(),
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

    fn is_over(&self) -> bool {
        matches!(self.state, State::End)
    }
}
