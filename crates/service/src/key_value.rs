use std::future::Future;

use bytes::Bytes;

use crate::{Context, Error, Later, Lookup, Metric, Pieces, RecordFormat, Upload, Value};

/// The service, as one event loop reaches it. Nothing here blocks the thread.
///
/// Protocol of a write: `admit_put put`, or for a value from `upload_bytes_min` on
/// `admit_put upload Upload::write* Upload::finish put_uploaded`, or `delete`.
pub trait KeyValue: 'static {
    /// A large value on its way in.
    type Upload: Upload;

    /// Waits until the service can answer for what it acknowledged, and answers for how many milliseconds it has; none
    /// if it can now. Requests wait for it, except for ranges of one node.
    fn until_ready(&self) -> Option<Later<Result<u64, Error>>>;

    /// The value of a key: at once if memory can tell.
    fn get(
        &self,
        context: &Context,
        key: &[u8],
    ) -> Lookup<Value, Error, impl Future<Output = Result<Option<Value>, Error>> + use<Self> + 'static>;

    /// Whether a value of so many bytes would be taken now. Asked before the value is read.
    fn admit_put(&self, context: &Context, key: &[u8], value_bytes: u64) -> Result<(), Error>;

    /// Stores a value that fits into memory. `room` is what the value takes of memory; it is dropped as soon as the
    /// value is not needed any more.
    fn put<K: AsRef<[u8]> + 'static, R: 'static>(
        &self,
        context: &Context,
        key: K,
        value: Bytes,
        room: R,
    ) -> impl Future<Output = Result<(), Error>> + use<Self, K, R> + 'static;

    /// Deletes a key.
    fn delete<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
    ) -> impl Future<Output = Result<(), Error>> + use<Self, K> + 'static;

    /// The length from which on a value has to go through [`upload`](KeyValue::upload).
    fn upload_bytes_min(&self) -> u64;

    /// A place for a value that is not to be held in memory.
    fn upload(
        &self,
        context: &Context,
        key: &[u8],
    ) -> impl Future<Output = Result<Self::Upload, Error>> + use<Self> + 'static;

    /// Stores a value that was uploaded.
    fn put_uploaded<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        value: <Self::Upload as Upload>::Finished,
    ) -> impl Future<Output = Result<(), Error>> + use<Self, K> + 'static;

    /// The entities of a range, sorted by key, in this format.
    fn range(
        &self,
        context: &Context,
        range: KeyRange,
        format: RecordFormat,
    ) -> impl Future<Output = Result<Box<dyn Pieces>, Error>> + use<Self> + 'static;

    /// Why writes are refused until somebody looks after the node; none if they are not.
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
    /// The first key.
    pub start: Bytes,
    /// The key before which it ends.
    pub end: Option<Bytes>,
    /// Whose entities.
    pub scope: Scope,
}

/// Whose entities a range has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of the node that is asked.
    Node,
    /// Those of all nodes.
    Cluster,
}
