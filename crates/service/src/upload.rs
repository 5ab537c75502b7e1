use bytes::Bytes;

use crate::{Later, StoreError};

/// A large value on its way in. Dropped unfinished, it leaves nothing.
pub trait Upload: Sized + 'static {
    /// The whole value, not visible yet.
    type Finished: 'static;

    /// Appends bytes.
    fn write(self, bytes: Bytes) -> Later<Result<Self, StoreError>>;

    /// Completes the value.
    fn finish(self) -> Later<Result<Self::Finished, StoreError>>;
}
