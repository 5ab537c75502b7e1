//! Values that are in pieces, on their way out.

use bytes::Bytes;
use ladoga_service::{Error, Later, Piece, Pieces, StoreError};
use scylla::statement::Consistency;

use crate::at::{At, Column, rows};
use crate::consistency::consistency;
use crate::failure::{of_store, unreachable, unreadable};
use crate::keyspace::UploadName;

/// How long a piece is, but for the last one. This must not change.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// A value that is read piece by piece.
pub(crate) struct ValuePieces {
    at: At,
    name: UploadName,
    /// How many bytes were read or passed over.
    read: u64,
    length: u64,
}

impl ValuePieces {
    pub(crate) fn new(at: At, name: UploadName, length: u64) -> ValuePieces {
        ValuePieces { at, name, read: 0, length }
    }

    /// The next piece; none at the end.
    pub(crate) async fn read(&mut self) -> Result<Option<Bytes>, StoreError> {
        if self.read >= self.length {
            return Ok(None);
        }
        let index = (self.read / PIECE_BYTES as u64) as i32;
        let bytes = self.at.piece(&self.name, index).await.map_err(of_store)?;
        let expected = (self.length - self.read).min(PIECE_BYTES as u64);
        match bytes {
            Some(bytes) if bytes.len() as u64 == expected => {
                self.read += expected;
                Ok(Some(bytes))
            }
            found => {
                let found = found.map_or(0, |bytes| bytes.len());
                Err(unreadable(format_args!(
                    "piece {index} of a value of {} bytes has {found} bytes, expected {expected}: the value was replaced long ago, \
                     or the piece is not on as many nodes as were asked",
                    self.length
                )))
            }
        }
    }
}

impl Pieces for ValuePieces {
    fn next(mut self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        Box::pin(async move {
            let piece = self.read().await?;
            Ok(piece.map(|bytes| (bytes, self as Box<dyn Pieces>)))
        })
    }

    fn skip(&mut self, bytes: u64) -> u64 {
        let rest = bytes % PIECE_BYTES as u64;
        self.read += bytes - rest;
        rest
    }
}

impl At {
    /// A piece, if there is one. If fewer than a majority are asked, one that they do not have yet, or lost, may be with others.
    async fn piece(&self, name: &UploadName, index: i32) -> Result<Column, Error> {
        let found = self.piece_at(consistency(self.replicas), name, index).await?;
        if found.is_none() && (self.replicas.ack as usize) < self.replicas.majority() {
            return self.piece_at(Consistency::Quorum, name, index).await;
        }
        Ok(found)
    }

    async fn piece_at(
        &self,
        consistency: Consistency,
        name: &UploadName,
        index: i32,
    ) -> Result<Column, Error> {
        let (key, upload) = name.columns();
        let values = (key, &upload[..], index);
        let found = rows(self.run_at(consistency, &self.keyspace.pieces.get, values, self.read()).await?)?;
        let row = found.maybe_first_row::<(Column,)>();
        Ok(row
            .map_err(|error| unreachable(format_args!("Cassandra's answer: {error}")))?
            .and_then(|(bytes,)| bytes))
    }
}
