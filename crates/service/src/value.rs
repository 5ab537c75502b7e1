use std::future::Future;

use bytes::Bytes;

use crate::{Later, Pieces, StoreError};

/// A stored value, as a client gets it.
pub type Value = ladoga_model::Value<Bytes, LargeValue>;

/// The newest cell of a key, as it is read: a value, or a deletion.
pub type StoredCell = ladoga_model::Cell<Bytes, LargeValue>;

/// A value that is read piece by piece.
pub struct LargeValue {
    /// Its length.
    pub bytes: u64,
    /// The whole value.
    pub pieces: Box<dyn Pieces>,
}

/// The answer to a point read, or a future that makes it.
pub enum Lookup<T = StoredCell, E = StoreError, F = Later<Result<Option<T>, E>>> {
    /// The answer, from memory.
    Now(Result<Option<T>, E>),
    /// The answer takes a disk or a network.
    Later(F),
}

impl<T, E, F: Future<Output = Result<Option<T>, E>>> Lookup<T, E, F> {
    /// The answer, waited for.
    pub async fn wait(self) -> Result<Option<T>, E> {
        match self {
            Lookup::Now(found) => found,
            Lookup::Later(found) => found.await,
        }
    }
}
