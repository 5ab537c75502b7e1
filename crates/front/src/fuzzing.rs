//! Decoders of bytes that nobody vouches for, as fuzz targets call them.

use bytes::Bytes;

use crate::http::{BatchAction, BatchOperation, CutLine, LINE_BYTES_MAX, LineCutter};

/// An error repeats a part of the line only.
const ERROR_BYTES_MAX: usize = 1_000;

/// The lines of a batch: they mean the same however they are cut.
///
/// # Panics
/// If they do not, or if what is made of a line is not bounded by it.
pub fn batch(bytes: &[u8]) {
    let whole = read(bytes, bytes.len().max(1));
    for step in [1, 7] {
        assert_eq!(read(bytes, step), whole, "{} by {step}", bytes.escape_ascii());
    }
}

/// What each line is to do, or why it is no operation.
fn read(bytes: &[u8], step: usize) -> Vec<Result<BatchOperation, String>> {
    let (mut cutter, mut lines) = (LineCutter::new(LINE_BYTES_MAX), Vec::new());
    for piece in bytes.chunks(step) {
        cutter.push(Bytes::copy_from_slice(piece));
        lines.extend(std::iter::from_fn(|| cutter.next_line()));
    }
    lines.extend(cutter.last_line());
    lines.iter().map(parse).collect()
}

fn parse(line: &CutLine) -> Result<BatchOperation, String> {
    let CutLine::Whole(line) = line else { return Err("too long".to_owned()) };
    let operation = BatchOperation::parse(line).map_err(|error| error.to_string());
    match &operation {
        Ok(BatchOperation { key, action }) => {
            let value_bytes = if let BatchAction::Put { value, .. } = action { value.len() } else { 0 };
            assert!(!key.is_empty() && key.len() + value_bytes < line.len(), "more than there was");
        }
        Err(error) => {
            assert!(error.len() <= ERROR_BYTES_MAX, "{error}");
            assert!(!error.contains(char::is_control), "{error:?}");
        }
    }
    operation
}
