use std::future::Future;

use bytes::Bytes;
use ladoga_model::{Stamp, Ttl, Version};

use crate::{Context, Error, Later, Lookup, Metric, Pieces, RecordFormat, StoredCell, Upload};

/// The service, as one event loop reaches it. Nothing here blocks the thread.
///
/// Protocol of a write: `admit_put put`, or for a value from `upload_bytes_min` on
/// `admit_put upload Upload::write* Upload::finish put_uploaded`, or `delete`, or `increment`, or `expire`. With a precondition,
/// `admit_conditional` follows `admit_put`.
pub trait KeyValue: 'static {
    /// A large value on its way in.
    type Upload: Upload;

    /// Waits until the service can answer for what it acknowledged, and answers for how many milliseconds it has; none
    /// if it can now. Requests wait for it, except for ranges of one node.
    fn until_ready(&self) -> Option<Later<Result<u64, Error>>>;

    /// The newest cell of a key, a deletion as far as one is known of: at once if memory can tell. What has
    /// expired is a deletion, too.
    fn get(
        &self,
        context: &Context,
        key: &[u8],
    ) -> Lookup<
        StoredCell,
        Error,
        impl Future<Output = Result<Option<StoredCell>, Error>> + use<Self> + 'static,
    >;

    /// Whether a value of so many bytes would be taken now. Asked before the value is read.
    fn admit_put(&self, context: &Context, key: &[u8], value_bytes: u64) -> Result<(), Error>;

    /// Whether the precondition of a write is true now, as far as that is worth finding out for a value of so many bytes. Asked
    /// before the value is read, so that one that is refused need not be sent; what counts is whether it is true when it is
    /// written.
    fn admit_conditional(
        &self,
        context: &Context,
        key: &[u8],
        value_bytes: u64,
    ) -> impl Future<Output = Result<(), Error>> + use<Self> + 'static;

    /// Stores a value that fits into memory; answers its version. `room` is what the value takes of memory; it is dropped as soon as the
    /// value is not needed any more.
    fn put<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        context: &Context,
        key: K,
        value: Bytes,
        room: R,
    ) -> impl Future<Output = Result<Version, Error>> + use<Self, K, R> + 'static;

    /// Deletes a key; answers the version of the deletion.
    fn delete<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
    ) -> impl Future<Output = Result<Version, Error>> + use<Self, K> + 'static;

    /// Adds to the number under a key: see [`incremented`](crate::incremented). Answers the sum and its version.
    fn increment<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        by: i64,
    ) -> impl Future<Output = Result<(i64, Version), Error>> + use<Self, K> + 'static;

    /// Changes when the value under a key expires: after this time, counted from now, or never. The value stays as it is. Answers its
    /// new version and expiry; fails with [`Error::NotFound`] if there is no value.
    fn expire<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        ttl: Option<Ttl>,
    ) -> impl Future<Output = Result<Stamp, Error>> + use<Self, K> + 'static;

    /// The length from which on a value has to go through [`upload`](KeyValue::upload).
    fn upload_bytes_min(&self) -> u64;

    /// A place for a value that is not to be held in memory.
    fn upload(
        &self,
        context: &Context,
        key: &[u8],
    ) -> impl Future<Output = Result<Self::Upload, Error>> + use<Self> + 'static;

    /// Stores a value that was uploaded; answers its version.
    fn put_uploaded<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        value: <Self::Upload as Upload>::Finished,
    ) -> impl Future<Output = Result<Version, Error>> + use<Self, K> + 'static;

    /// The entities of a range, in the order of its keys, in this format.
    fn range(
        &self,
        context: &Context,
        range: KeyRange,
        format: Box<dyn RecordFormat>,
    ) -> impl Future<Output = Result<Box<dyn Pieces>, Error>> + use<Self> + 'static;

    /// Why writes are refused until an operator intervenes; none if they are not.
    fn failure(&self) -> Option<String>;

    /// Why a request would not be served now, one reason each; none if it would. Asked again and again, so it has to be cheap.
    fn obstacles(&self) -> Vec<String> {
        self.failure().into_iter().collect()
    }

    /// What the service and its store count.
    fn metrics(&self) -> Vec<Metric>;
}

/// Which entities a range has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    /// Between which keys, and in which order.
    pub span: KeySpan,
    /// How many at most; all, if nothing is said.
    pub limit: Option<u64>,
    /// Whose entities.
    pub scope: Scope,
}

/// Keys that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpan {
    /// The first key; empty for the first one that there is.
    pub start: Bytes,
    /// The key before which it ends.
    pub end: Option<Bytes>,
    /// Whether the last key comes first.
    pub is_reverse: bool,
}

/// Whose entities a range has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of the node that is asked.
    Node,
    /// Those of all nodes.
    Cluster,
}
