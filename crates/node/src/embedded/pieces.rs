use std::sync::Arc;

use bytes::Bytes;
use ladoga_storage::{Engine, Error, Range};

use super::local::Disk;
use super::read_error;
use crate::store::{Later, Piece, Pieces, StoreError};

/// What reads a range, on a thread that may wait.
pub(super) trait RangeReader: Send + 'static {
    /// The next bytes; none at the end.
    fn read(&mut self) -> Result<Vec<u8>, Error>;

    /// Whether that was the end.
    fn is_over(&self) -> bool;
}

/// A range that is still to be begun: its snapshot is taken by who reads first.
pub(super) struct RangeStart {
    pub(super) engine: Arc<Engine>,
    pub(super) start: Bytes,
    pub(super) end: Option<Bytes>,
}

impl RangeStart {
    pub(super) fn begin(self) -> Range {
        self.engine.snapshot().range(&self.start, self.end.as_deref())
    }
}

/// What a reader reads, many records to a piece.
pub(super) struct RangePieces<R> {
    reader: R,
    disk: Disk,
}

impl<R> RangePieces<R> {
    pub(super) fn new(reader: R, disk: Disk) -> RangePieces<R> {
        RangePieces { reader, disk }
    }
}

impl<R: RangeReader> Pieces for RangePieces<R> {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        let RangePieces { mut reader, disk } = *self;
        if reader.is_over() {
            return Box::pin(std::future::ready(Ok(None)));
        }
        let read = disk.submit(move || {
            let bytes = reader.read().map_err(|error| read_error(&error))?;
            Ok((bytes, reader))
        });
        Box::pin(async move {
            let (bytes, reader) = read.await?;
            let rest = RangePieces { reader, disk };
            Ok((!bytes.is_empty()).then(|| (Bytes::from(bytes), Box::new(rest) as Box<dyn Pieces>)))
        })
    }
}
