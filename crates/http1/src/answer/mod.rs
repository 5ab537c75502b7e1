//! Reads the answers of a server, however their bytes were cut.
//!
//! - [`Reader`] takes bytes and gives events. It does no I/O; every client of this workspace is built on it.
//! - [`Answers`] drives a reader over a blocking stream.
//!
//! It is strict (RFC 9112): an answer whose end could be read in two ways is an error. Everything that a server
//! could make long has a bound.

mod blocking;
mod head;
mod reader;

pub use blocking::Answers;
pub use head::{Head, Length};
pub use reader::{Answer, Event, Reader};

/// A head with more bytes is refused; so are trailers.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// A head with more header lines is refused.
pub const HEADERS_MAX: usize = 128;
/// The line with the size of a chunk, extensions included.
pub const CHUNK_LINE_BYTES_MAX: usize = 4 << 10;
/// Interim answers (100 to 199) before the final one.
pub const INTERIM_MAX: u32 = 16;

/// What the request was, as far as its answer is read differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// The answer has a body if its head announces one.
    Ordinary,
    /// `HEAD`: the answer has no body, whatever its head announces.
    Head,
    /// Another protocol (`Upgrade`): `101` ends the last answer, and the bytes after it are not HTTP.
    Upgrade,
}

/// Bytes that are no HTTP/1.1 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// The head breaks the grammar.
    #[error("the head of the answer is malformed: {0}")]
    Head(httparse::Error),
    /// The status is below 100.
    #[error("the answer has the status {0}, expected 100 or more")]
    Status(u16),
    /// A head, or trailers.
    #[error("the head of the answer is longer than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    /// Not a number, or several different ones.
    #[error("the answer has no single content-length")]
    ContentLength,
    /// Another one than `chunked`, or beside a content-length.
    #[error("the answer has a transfer-encoding other than a single `chunked`")]
    TransferEncoding,
    /// An upgrade to another protocol, which the request did not ask for.
    #[error("the answer switches to another protocol, which the request did not ask for")]
    Upgrade,
    /// More than [`INTERIM_MAX`].
    #[error("more than {INTERIM_MAX} interim answers came before the final one")]
    Interim,
    /// The line with its size, or the line end after its bytes.
    #[error("a chunk of the answer is malformed")]
    Chunk,
}

impl From<Malformed> for std::io::Error {
    fn from(malformed: Malformed) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, malformed)
    }
}
