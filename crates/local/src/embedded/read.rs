use ladoga_storage::{BLOB_PIECE_BYTES, Blob};

use super::pool::DiskHandle;
use super::read_error;
use crate::store::{LargeValue, Later, Piece, Pieces, StoreError};

/// A large value of the engine, as the node reads it.
pub(super) fn large_value(blob: Blob, disk: &DiskHandle) -> LargeValue {
    let bytes = blob.len();
    LargeValue { bytes, pieces: Box::new(BlobPieces { blob, offset: 0, disk: disk.clone() }) }
}

/// A large value, piece by piece, each checked.
struct BlobPieces {
    blob: Blob,
    offset: u64,
    disk: DiskHandle,
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

    fn skip(&mut self, bytes: u64) -> u64 {
        let rest = bytes % BLOB_PIECE_BYTES as u64;
        // A peer may ask for more than there is.
        self.offset = self.offset.saturating_add(bytes - rest);
        rest
    }
}
