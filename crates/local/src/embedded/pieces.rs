use std::sync::Arc;

use bytes::Bytes;
use ladoga_storage::{Engine, Error, Range};

use super::pool::DiskHandle;
use super::read_error;
use crate::store::{KeySpan, Later, Piece, Pieces, StoreError};

/// What makes bytes of a range, on a thread that may wait.
pub(super) trait RangeReader: Send + 'static {
    /// What is read of the range at once, as a rule.
    const PIECE_BYTES: usize;

    /// Appends the next bytes, about as many as a piece has, or none if it has looked at so much that others are to have their
    /// turn. Answers whether there are more.
    fn read(&mut self, range: &mut Range, out: &mut Vec<u8>) -> Result<bool, Error>;
}

/// What a reader reads, many records to a piece.
pub(super) struct RangePieces<R> {
    reader: R,
    at: At,
    disk: DiskHandle,
}

/// How far it is.
enum At {
    /// The snapshot is taken by who reads first.
    Start { engine: Arc<Engine>, span: KeySpan, live_at_ms: u64 },
    /// Between pieces.
    Within(Range),
    /// After the last one.
    End,
}

impl<R: RangeReader> RangePieces<R> {
    pub(super) fn new(
        reader: R,
        engine: &Arc<Engine>,
        span: KeySpan,
        live_at_ms: u64,
        disk: &DiskHandle,
    ) -> RangePieces<R> {
        let at = At::Start { engine: Arc::clone(engine), span, live_at_ms };
        RangePieces { reader, at, disk: disk.clone() }
    }
}

/// A piece, and how far the reader is then.
fn read<R: RangeReader>(reader: &mut R, at: At) -> Result<(Vec<u8>, At), Error> {
    let mut range = match at {
        At::Start { engine, span: KeySpan { start, end, .. }, live_at_ms } => {
            engine.snapshot().range(&start, end.as_deref()).live_at_ms(live_at_ms)
        }
        At::Within(range) => range,
        At::End => return Ok((Vec::new(), At::End)),
    };
    let mut out = Vec::with_capacity(R::PIECE_BYTES);
    let has_more = reader.read(&mut range, &mut out)?;
    // The client may take its time for the next piece.
    range.rest()?;
    Ok((out, if has_more { At::Within(range) } else { At::End }))
}

impl<R: RangeReader> Pieces for RangePieces<R> {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let RangePieces { mut reader, at, disk } = *self;
        if matches!(at, At::End) {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let piece = disk.submit(move || {
            let (bytes, at) = read(&mut reader, at).map_err(|error| read_error(&error))?;
            Ok((bytes, reader, at))
        });
        Box::pin(async move {
            let (bytes, reader, at) = piece.await?;
            if bytes.is_empty() && matches!(at, At::End) {
                return Ok(None);
            }
            let rest = RangePieces { reader, at, disk };
            Ok(Some((Bytes::from(bytes), Box::new(rest) as Box<dyn Pieces>)))
        })
    }
}
