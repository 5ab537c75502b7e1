//! Values that are in pieces, on their way in: the pieces are written first, and the row last.

use bytes::{Buf, Bytes, BytesMut};
use ladoga_model::HybridClock;
use ladoga_service::{Error, Later, StoreError, Upload};

use crate::at::At;
use crate::failure::{of_store, of_upload, unreachable};
use crate::keyspace::UploadName;
use crate::pieces::PIECE_BYTES;

/// The share of the time for which pieces are kept in which a row may name them at last. The rest is for clocks, which may be a minute
/// ahead of others, and for the row on its way.
const NAMED_SHARE: u64 = 2;

/// A value on its way in.
pub struct PiecesIn {
    begun: Begun,
    /// Less than a piece, between writes.
    rest: BytesMut,
    pieces: i32,
    length: u64,
}

/// A value whose pieces are all written, and which no row names yet.
pub struct AllPieces {
    begun: Begun,
    length: u64,
}

/// Pieces that are removed if nothing comes of them.
struct Begun {
    at: At,
    name: Option<UploadName>,
}

impl PiecesIn {
    /// Notes that there are going to be pieces, so that they are found if nothing comes of them.
    pub(crate) async fn begin(at: At, key: &[u8]) -> Result<PiecesIn, Error> {
        let name = UploadName { key: Bytes::copy_from_slice(key), upload: at.shared.clock.next() };
        let (key, upload) = name.columns();
        let values = (at.keyspace.bucket(key), key, &upload[..], name.written());
        at.run(&at.keyspace.pieces.begin, values, at.write()).await.map_err(of_upload)?;
        let begun = Begun { at, name: Some(name) };
        Ok(PiecesIn { begun, rest: BytesMut::new(), pieces: 0, length: 0 })
    }

    async fn write_whole_pieces(&mut self) -> Result<(), StoreError> {
        while self.rest.len() >= PIECE_BYTES {
            self.write_piece(PIECE_BYTES).await?;
        }
        Ok(())
    }

    async fn write_piece(&mut self, bytes: usize) -> Result<(), StoreError> {
        let Begun { at, name } = &self.begun;
        let name = name.as_ref().expect("it is named until it is finished");
        let (key, upload) = name.columns();
        let values = (key, &upload[..], self.pieces, &self.rest[..bytes], name.written());
        at.run(&at.keyspace.pieces.put, values, at.write()).await.map_err(of_store)?;
        self.rest.advance(bytes);
        self.pieces += 1;
        self.length += bytes as u64;
        Ok(())
    }
}

impl Upload for PiecesIn {
    type Finished = AllPieces;

    fn write(mut self, bytes: Bytes) -> Later<Result<PiecesIn, StoreError>> {
        Box::pin(async move {
            self.rest.extend_from_slice(&bytes);
            self.write_whole_pieces().await?;
            Ok(self)
        })
    }

    fn finish(mut self) -> Later<Result<AllPieces, StoreError>> {
        Box::pin(async move {
            let rest = self.rest.len();
            if rest > 0 {
                self.write_piece(rest).await?;
            }
            Ok(AllPieces { begun: self.begun, length: self.length })
        })
    }
}

impl AllPieces {
    /// What a row has to say, which is going to name the pieces. From now on they stay, whatever becomes of the row: it may be there
    /// even if its write fails. Those that no row names are removed later.
    pub(crate) fn keep(mut self) -> Result<(UploadName, u64), Error> {
        let name = self.begun.name.take().expect("it is kept once");
        let shared = &self.begun.at.shared;
        if !may_be_named(&name, shared.clock.wall_ms(), shared.settings.pieces_keep_ms) {
            return Err(unreachable(
                "the value took so long to arrive that its first pieces may be removed already",
            ));
        }
        Ok((name, self.length))
    }
}

/// Whether a row may be written that names the pieces of an upload.
pub(crate) const fn may_be_named(name: &UploadName, now_ms: u64, keep_ms: u64) -> bool {
    age_ms(name, now_ms) < keep_ms / NAMED_SHARE
}

/// How long ago an upload began.
pub(crate) const fn age_ms(name: &UploadName, now_ms: u64) -> u64 {
    now_ms.saturating_sub(HybridClock::wall_ms(name.upload.timestamp))
}

impl Drop for Begun {
    fn drop(&mut self) {
        let Some(name) = self.name.take() else { return };
        let at = self.at.clone();
        // Best effort: what is left is found by the sweep.
        self.at.shared.runtime.spawn(async move {
            if let Err(error) = at.remove_pieces(at.keyspace.bucket(&name.key), &name).await {
                tracing::debug!(%error, "pieces of an upload that was given up are left to the sweep");
            }
        });
    }
}

impl At {
    /// Removes the pieces of a value, and the note that there are any, which is in this bucket.
    pub(crate) async fn remove_pieces(&self, bucket: i32, name: &UploadName) -> Result<(), Error> {
        let ((key, upload), removed) = (name.columns(), name.removed(self.shared.clock.next()));
        self.run(&self.keyspace.pieces.delete, (removed, key, &upload[..]), self.write()).await?;
        let values = (removed, bucket, key, &upload[..]);
        self.run(&self.keyspace.pieces.forget, values, self.write()).await.map(drop)
    }
}
