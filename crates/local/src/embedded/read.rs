use ladoga_storage::Blob;

use super::local::Disk;
use super::read_error;
use crate::store::{Later, Piece, Pieces, StoreError, StoredCell, Value};

/// A value of the engine, as the node has it.
pub(super) fn into_value(value: ladoga_storage::Value, disk: &Disk) -> Value {
    match value {
        ladoga_storage::Value::Inline(bytes) => Value::Inline(bytes),
        ladoga_storage::Value::Blob(blob) => Value::Large {
            bytes: blob.len(),
            pieces: Box::new(BlobPieces { blob, offset: 0, disk: disk.clone() }),
        },
    }
}

/// A cell of the engine, as the node has it.
pub(super) fn into_cell(cell: ladoga_storage::StoredCell, disk: &Disk) -> StoredCell {
    StoredCell { stamp: cell.stamp, value: cell.value.map(|value| into_value(value, disk)) }
}

/// A large value, piece by piece, each checked.
struct BlobPieces {
    blob: Blob,
    offset: u64,
    disk: Disk,
}

impl Pieces for BlobPieces {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let BlobPieces { blob, offset, disk } = *self;
        if offset >= blob.len() {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let read = disk.submit(move || {
            let piece = blob.read_piece(offset).map_err(|error| read_error(&error))?;
            Ok((piece, blob))
        });
        Box::pin(async move {
            let (piece, blob) = read.await?;
            let offset = offset + piece.len() as u64;
            Ok(Some((piece, Box::new(BlobPieces { blob, offset, disk }) as Box<dyn Pieces>)))
        })
    }
}
