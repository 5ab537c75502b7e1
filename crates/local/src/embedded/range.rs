use ladoga_storage::{BLOB_PIECE_BYTES, Blob, Error, Range, Value};

use super::pieces::RangeReader;
use crate::store::RecordFormat;

/// Reads the records of a range.
pub(super) struct RecordReader {
    format: RecordFormat,
    /// The large value at which the range stands, and how many of its bytes have been read.
    value: Option<(Blob, u64)>,
}

impl RangeReader for RecordReader {
    /// A piece of a large value comes on top.
    const PIECE_BYTES: usize = 64 << 10;

    fn read(&mut self, range: &mut Range, out: &mut Vec<u8>) -> Result<bool, Error> {
        while out.len() < RecordReader::PIECE_BYTES {
            if let Some((blob, offset)) = self.value.take() {
                self.read_value(blob, offset, out)?;
            } else if !self.read_record(range, out)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl RecordReader {
    pub(super) const fn new(format: RecordFormat) -> RecordReader {
        RecordReader { format, value: None }
    }

    /// Reads a record, without its value if that is large; `false` at the end of the range.
    fn read_record(&mut self, range: &mut Range, out: &mut Vec<u8>) -> Result<bool, Error> {
        let Some((key, value)) = range.next()? else { return Ok(false) };
        match value {
            Value::Inline(bytes) => {
                (self.format.begin)(out, &key, bytes.len() as u64);
                out.extend_from_slice(&bytes);
                (self.format.end)(out);
            }
            Value::Large(blob) => {
                (self.format.begin)(out, &key, blob.len());
                self.value = Some((blob, 0));
            }
        }
        Ok(true)
    }

    fn read_value(&mut self, blob: Blob, offset: u64, out: &mut Vec<u8>) -> Result<(), Error> {
        out.reserve(BLOB_PIECE_BYTES);
        let piece = blob.read_piece(offset)?;
        out.extend_from_slice(&piece);
        let offset = offset + piece.len() as u64;
        if offset < blob.len() {
            self.value = Some((blob, offset));
        } else {
            (self.format.end)(out);
        }
        Ok(())
    }
}
