use std::future::{Future, ready};
use std::pin::Pin;

use bytes::Bytes;
use ladoga_model::Stamp;

use crate::StoreError;

/// A result that is not there yet. The work for it goes on whether or not this is polled.
pub type Later<T> = Pin<Box<dyn Future<Output = T>>>;

/// Bytes that are read one piece at a time, so that they need not fit into memory.
pub trait Pieces {
    /// The next piece, and what follows it; `None` at the end. A piece of a range is empty if there was much to look at, and
    /// nothing of it belongs to the range: a sign that the work goes on. It comes between two records only.
    ///
    /// Takes itself along, so that the next piece can be fetched while this one is sent.
    fn next(self: Box<Self>) -> Later<Result<Option<Piece>, StoreError>>;

    /// Passes over so many bytes of a value as far as they need not be read, and answers how many of them come all the same. Fewer bytes
    /// than the value has.
    fn skip(&mut self, bytes: u64) -> u64 {
        bytes
    }
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

/// How the records of a range are written, one after the other; it may keep what it needs between them.
///
/// Protocol: `(record | begin_large large* end_large)* end`.
pub trait RecordFormat: Send + 'static {
    /// Whether it writes values. If not, they need not be read, and it may be given empty ones.
    fn wants_values(&self) -> bool;

    /// Writes a record.
    fn record(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, value: &[u8]);

    /// Writes what comes before a large value of this many bytes.
    fn begin_large(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, value_bytes: u64);

    /// Writes bytes of that value.
    fn large(&mut self, out: &mut Vec<u8>, bytes: &[u8]);

    /// Writes what comes after that value.
    fn end_large(&mut self, out: &mut Vec<u8>);

    /// Writes what comes after the last record.
    fn end(&mut self, out: &mut Vec<u8>);
}
