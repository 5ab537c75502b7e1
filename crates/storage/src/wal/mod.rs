//! The write-ahead log: one segment for each memtable, one frame for each group of writes.
//!
//! Segments are numbered without gaps and allocated ahead of their use, so that appending changes no metadata and cannot fail
//! for lack of space. In a store that has little they are small, and grow to the size of a memtable. `docs/formats.md` has the format; `frame.rs` the frames.

mod replay;
mod writer;

pub(crate) use replay::{LogGroup, LogStart, Replayed, make_durable, replay, segments};
pub(crate) use writer::WalWriter;

#[cfg(test)]
mod tests;
