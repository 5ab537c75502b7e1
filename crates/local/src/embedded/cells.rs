use ladoga_model::Cell;
use ladoga_storage::{Error, Range, Side, Value};

use super::pieces::RangeReader;
use crate::store::CellFormat;

/// Values that are read for one piece, if only their versions go into it: some milliseconds, after which others have their turn.
const LOOKED_BYTES_MAX: usize = 16 << 20;

/// Reads the cells of a range, deletions included.
pub(super) struct CellReader {
    pub(super) format: CellFormat,
    pub(super) side: Side,
}

impl RangeReader for CellReader {
    /// Before the last cell of a piece.
    const PIECE_BYTES: usize = 32 << 10;

    fn read(&mut self, range: &mut Range, out: &mut Vec<u8>) -> Result<bool, Error> {
        let mut value_bytes = 0;
        while out.len() < CellReader::PIECE_BYTES && value_bytes < LOOKED_BYTES_MAX {
            let Some((key, cell)) = range.next_cell_from(self.side)? else { return Ok(false) };
            let value = cell.value.as_ref().map(|value| match value {
                Value::Inline(bytes) => {
                    value_bytes += bytes.len();
                    ladoga_model::Value::Inline(&bytes[..])
                }
                Value::Large(blob) => ladoga_model::Value::Large(blob.len()),
            });
            (self.format)(out, &key, Cell { stamp: cell.stamp, value });
        }
        Ok(true)
    }
}
