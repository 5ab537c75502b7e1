use std::future::{Future, ready};
use std::pin::Pin;

use bytes::Bytes;

use crate::StoreError;

/// A result that is not there yet. The work for it goes on whether or not this is polled.
pub type Later<T> = Pin<Box<dyn Future<Output = T>>>;

/// Bytes that are read one piece at a time, so that they need not fit into memory.
pub trait Pieces {
    /// The next piece, not empty, and what follows it; `None` at the end.
    ///
    /// Takes itself along, so that the next piece can be fetched while this one is sent.
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>>;
}

/// A piece, and what follows it.
pub type Piece = (Bytes, Box<dyn Pieces>);

/// Nothing more.
pub struct NoPieces;

impl Pieces for NoPieces {
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>> {
        Box::pin(ready(Ok(None)))
    }
}

/// How a record of a range is written: `begin` value `end`.
#[derive(Clone, Copy)]
pub struct RecordFormat {
    /// Writes the bytes before a value of this many bytes under this key.
    pub begin: fn(out: &mut Vec<u8>, key: &[u8], value_bytes: u64),
    /// Writes the bytes after it.
    pub end: fn(out: &mut Vec<u8>),
}
