use ladoga_storage::{Error, Range, Value};

use super::pieces::RangeReader;
use crate::store::{CellContent, CellFormat};

/// Reads the cells of a range, deletions included.
pub(super) struct CellReader(pub(super) CellFormat);

impl RangeReader for CellReader {
    /// Before the last cell of a piece.
    const PIECE_BYTES: usize = 32 << 10;

    fn read(&mut self, range: &mut Range, out: &mut Vec<u8>) -> Result<bool, Error> {
        while out.len() < CellReader::PIECE_BYTES {
            let Some((key, cell)) = range.next_cell()? else { return Ok(false) };
            let content = match &cell.value {
                None => CellContent::Tombstone,
                Some(Value::Inline(bytes)) => CellContent::Value(bytes),
                Some(Value::Blob(blob)) => CellContent::Large(blob.len()),
            };
            (self.0)(out, &key, cell.stamp, content);
        }
        Ok(true)
    }
}
