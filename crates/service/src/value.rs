use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::{Pieces, StoreError};

/// Something that is not there yet. The work for it goes on whether or not this is polled.
pub type Later<T> = Pin<Box<dyn Future<Output = T>>>;

/// A stored value.
pub enum Value {
    /// In memory.
    Inline(Bytes),
    /// To be read piece by piece.
    Large {
        /// Its length.
        bytes: u64,
        /// All of it.
        pieces: Box<dyn Pieces>,
    },
}

/// The answer to a point read, or a future that makes it.
pub enum Lookup<T = Value, E = StoreError, F = Later<Result<Option<T>, E>>> {
    /// The answer, from memory.
    Now(Result<Option<T>, E>),
    /// The answer takes a disk or a network.
    Later(F),
}
