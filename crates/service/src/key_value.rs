use std::future::{Future, ready};

use bytes::Bytes;
use ladoga_model::{Replicas, Stamp, Ttl, Version};

use crate::{
    BackupAnswer, BackupStep, ChangeFormat, Changed, Context, Error, Followed, Follower, KeySpan, KeyWrite,
    Later, Lookup, Metric, Pieces, RecordFormat, StoredCell, Together, Transaction, Upload,
};

/// The service, as one event loop reaches it. Nothing here blocks the thread.
///
/// Protocol of a write: `admit_put put`, or for a value from `upload_bytes_min` on
/// `admit_put upload Upload::write* Upload::finish put_uploaded`, or `delete`, or `increment`, or `expire`. With a precondition,
/// `admit_conditional` follows `admit_put`, unless all of the value has arrived.
pub trait KeyValue: 'static {
    /// A large value on its way in.
    type Upload: Upload;

    /// Waits until the service can answer for what it acknowledged, and answers for how many milliseconds it has; none
    /// if it can now. Requests wait for it, except for ranges of one node.
    fn until_ready(&self) -> Option<Later<Result<u64, Error>>>;

    /// How many replicas are waited for if a request asks for these: more, if the service has no word for so many.
    fn waits_for(&self, asked: Replicas) -> Replicas {
        asked
    }

    /// These keys are about to be asked for or written: memory may fetch what that looks at, for all of them at once. Changes
    /// nothing, and may do nothing.
    fn fetch_ahead(&self, _keys: &[&[u8]]) {}

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

    /// Adds to the number under a key: see [`incremented`](crate::incremented). Answers the sum, its version, and when it expires.
    fn increment<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        by: i64,
    ) -> impl Future<Output = Result<(i64, Stamp), Error>> + use<Self, K> + 'static;

    /// Changes when the value under a key expires: after this time, counted from now, or never. The value stays as it is. Answers its
    /// new version and expiry; fails with [`Error::NotFound`] if there is no value.
    fn expire<K: AsRef<[u8]> + 'static>(
        &self,
        context: &Context,
        key: K,
        ttl: Option<Ttl>,
    ) -> impl Future<Output = Result<Stamp, Error>> + use<Self, K> + 'static;

    /// Does all of a transaction or nothing of it, in one step that no other write comes between. None if this service has no
    /// transactions, as a cluster: there, each key is written by itself. Values are admitted before, as for
    /// [`put`](KeyValue::put).
    fn transact(
        &self,
        _transaction: Transaction<<Self::Upload as Upload>::Finished>,
    ) -> Option<Later<Result<Result<(), Changed>, Error>>> {
        None
    }

    /// How many writes of this event loop have begun that others that begin now may come before, because they wait for the disk
    /// first. All others happen in the order in which they begin, if they are of one kind: plain writes, or writes that depend on
    /// what is there.
    fn unordered_writes(&self) -> u64 {
        0
    }

    /// Whether several keys could be written together now. Asked before the writes are read.
    fn admit_together(&self) -> Result<(), Error>;

    /// Carries out these writes in their order, all of them or none, also if the node crashes meanwhile. Nothing else is written in
    /// between; a range has all of them or none. Each sees those before it. The values have to be in memory, each shorter than
    /// `upload_bytes_min`.
    fn write_together(&self, context: &Context, writes: Vec<KeyWrite>) -> Later<Result<Together, Error>>;

    /// The length from which on a value has to go through [`upload`](KeyValue::upload).
    fn upload_bytes_min(&self) -> u64;

    /// A place for a value that is not to be held in memory. What its write asks for may not be known yet, except for its replicas.
    fn upload(
        &self,
        context: &Context,
        key: &[u8],
    ) -> impl Future<Output = Result<Self::Upload, Error>> + use<Self> + 'static;

    /// Stores a value that was uploaded; answers its version. All of this context counts, and nothing of that of the upload.
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

    /// Follows changes, in this format. A service that has no order of its changes does not.
    fn follow(&self, _: Followed, _: Box<dyn ChangeFormat>) -> Later<Result<Box<dyn Follower>, Error>> {
        Box::pin(ready(Err(Error::NoChanges)))
    }

    /// A step of a backup of this node. A service that keeps nothing on this node has none.
    fn backup(&self, _: BackupStep) -> Later<Result<BackupAnswer, Error>> {
        Box::pin(ready(Err(Error::NoBackups)))
    }

    /// Why a node with this service tells nothing of a cluster and repairs nothing, if somebody else does; none if it does so once it is of
    /// a cluster.
    fn no_cluster(&self) -> Option<Error> {
        None
    }

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

/// Whose entities a range has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those of the node that is asked.
    Node,
    /// Those of all nodes.
    Cluster,
}
