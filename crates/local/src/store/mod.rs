//! The narrow interface through which the node reaches its store: point read, apply versioned cells, stream a
//! range, statistics. The embedded engine is behind it; an external engine could be.
//!
//! What every write goes through is an associated type, and compiled into the caller; the rest is boxed.

mod arrivals;
mod cells;
mod gate;

pub use arrivals::Arrivals;
pub use cells::{CellChange, CellFormat, CellObserver, SupersededCell};
pub use gate::{CellGate, CellOrder, Passage};
pub use ladoga_service::{
    BackupAnswer, BackupStep, ChangeFormat, Distribution, Error, FencedCell, Followed, Follower, KeySpan,
    LargeValue, Later, Lookup, Metric, MetricKind, MetricValue, Piece, Pieces, RecordFormat, StoreError,
    StoredCell, Upload, Value,
};

use std::future::{Future, ready};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{Cell, Durability, Stamp, Version};
use ladoga_runtime::Supervisor;

/// A store, shared by the event loops.
pub trait Store: Send + Sync + 'static {
    /// What an event loop reaches it by.
    type Local: LocalStore;

    /// A way in for one event loop. Called once on the thread of each, within its runtime; tasks that all of its requests
    /// need are started as `supervisor`.
    fn attach(self: &Arc<Self>, supervisor: &Supervisor) -> Self::Local;

    /// The newest timestamp of any version in the store when it was opened.
    fn last_timestamp(&self) -> u64;

    /// Why it takes no writes until an operator intervenes, if that is so.
    fn failure(&self) -> Option<String>;

    /// Its figures, for `/metrics`.
    fn metrics(&self) -> Vec<Metric>;

    /// Notifies `observer` of every cell that replaces another from now on, and, in the background, of every cell that is
    /// stored now; it repeats that until a scan has come to its end. Called once, before anything is written. Fails if the
    /// system has no thread for the scan.
    fn observe(&self, observer: Arc<dyn CellObserver>) -> io::Result<()>;

    /// Checks every cell at this gate from now on. Called at most once, before anything is written.
    fn gate(&self, gate: Arc<dyn CellGate>);

    /// Its cells are written in this order, if they are followed. Called at most once, before anything is written. A store that
    /// has no feed of changes does nothing.
    fn order(&self, _: Arc<dyn CellOrder>) {}

    /// Its cells come from other nodes as well, in any order, if they are followed. Called at most once, before anything is written,
    /// and then [`order`](Store::order) is not.
    fn arrivals(&self, _: Arc<dyn Arrivals>) {}

    /// Notifies the observer of every stored cell again, as at the beginning.
    fn tell_again(&self);

    /// Says that every write older than this has arrived, on every replica; deletions older than it may go.
    fn drop_tombstones_before(&self, timestamp: u64);

    /// The time is later than this by the clock that counts. Values that expired before it may lose their bytes.
    fn drop_values_expired_before_ms(&self, time_ms: u64);

    /// Makes everything durable and stops. Called last.
    fn close(&self) -> Result<(), StoreError>;
}

/// A store, as one event loop reaches it. Nothing here blocks the thread.
pub trait LocalStore: 'static {
    /// An [`apply`](LocalStore::apply) under way. Dropping it does not undo it.
    type Apply: Future<Output = Result<Option<Version>, StoreError>> + Unpin + 'static;
    /// A large value on its way in.
    type Upload: Upload<Finished: Send>;

    /// The same way in for one request, whose writes are answered once they are as durable as it asks: more than the store
    /// otherwise makes them, or less.
    #[must_use]
    fn with_durability(&self, durability: Durability) -> Self;

    /// These keys are about to be looked up: memory may fetch what that waits for, for all of them at once. Changes nothing.
    fn fetch_ahead(&self, _keys: &[&[u8]]) {}

    /// The newest cell of a key, deletions included: at once if memory can tell.
    fn get_cell(&self, key: &[u8]) -> Lookup;

    /// Whether a write would be taken now of which this many bytes of value are still to be stored: of one that was uploaded, none. Asked
    /// before the value is read. A put that a full disk refuses is counted.
    fn admit(&self, kind: WriteKind, value_bytes: u64) -> Result<(), StoreError>;

    /// Whether a value would be taken now. This is no write, so none is counted as refused.
    fn has_room(&self) -> bool {
        self.admit(WriteKind::Put, 0).is_ok()
    }

    /// Makes the cells visible under their keys, and durable as the store does it or was asked to, however many they are. If it
    /// fails, each cell may or may not be written, unless the error is [`Fenced`](StoreError::Fenced). A value in memory must be
    /// shorter than [`upload_bytes_min`](LocalStore::upload_bytes_min). Answers the version of the last cell that got another one
    /// at the gate.
    fn apply<'c>(
        &self,
        cells: impl IntoIterator<Item = (&'c [u8], Cell<&'c [u8], <Self::Upload as Upload>::Finished>)>,
    ) -> Self::Apply;

    /// Calls `decide` with the newest cell of a key and writes the cell that it returns, if any. Nothing else is written to the
    /// key in between. That cell must be newer than the one it replaces, and its value in memory have at most `value_bytes_max`
    /// bytes.
    ///
    /// Updates of a key that are committed together see each other, and the other writes of their group. The answer comes once
    /// the new cell, and the one that it was decided by, are as durable as other writes. If that fails, the cell may or may not be written. If the
    /// newest cell cannot be read, nothing is decided. If the answer is dropped, the update may or may not happen.
    ///
    /// Of a value that is too long for a number, `decide` may get the length alone, as of a large one: the values that updates are decided by
    /// may together be more than there is memory for.
    ///
    /// `decide` runs inside the commit, maybe on another thread and with a lock held: it must be quick, and must not wait.
    fn update<R: Send + 'static>(
        &self,
        key: &[u8],
        value_bytes_max: u64,
        decide: impl FnOnce(Option<NewestCell>) -> (Option<NewCell<Self>>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>>;

    /// An update that writes nothing, and of which `decide` gets the whole value, if that is in memory.
    fn inspect<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> R + Send + 'static,
    ) -> Later<Result<R, StoreError>>;

    /// An update of several different keys: `decide` is called with the newest cell of each, and all cells that it returns are
    /// written, each with the number of its key, or none of them, also if the power fails meanwhile. They share one record of the log.
    /// `room` has an entry for each cell that there may be: the number of its key, and how many bytes its value has at most. Fails
    /// with [`TooLargeTogether`](StoreError::TooLargeTogether), with nothing done, if that does not fit into one record, or into memory.
    fn update_together<R: Send + 'static>(
        &self,
        keys: Vec<Bytes>,
        room: &[(usize, u64)],
        decide: impl FnOnce(Vec<Option<NewestCell>>) -> (Vec<(usize, NewCell<Self>)>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>>;

    /// As [`update`](LocalStore::update) for a cell that keeps its value, or its deletion, and gets another stamp, if `decide` says
    /// one: newer than what is there. No byte of a large value is copied.
    fn restamp<R: Send + 'static>(
        &self,
        key: &[u8],
        decide: impl FnOnce(Option<NewestCell>) -> (Option<Stamp>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>>;

    /// How many updates of this event loop are not queued yet, because the disk has to be read before: others that begin after them
    /// may come before them.
    fn unqueued_updates(&self) -> u64;

    /// The length from which on a value has to go through [`upload`](LocalStore::upload).
    fn upload_bytes_min(&self) -> u64;

    /// A place for a value that is not to be held in memory.
    fn upload(&self) -> Later<Result<Self::Upload, StoreError>>;

    /// The entities of `span`, `limit` at most, as they are now, in this format; without those that have expired by `now_ms`.
    fn range(
        &self,
        span: KeySpan,
        limit: Option<u64>,
        now_ms: u64,
        format: Box<dyn RecordFormat>,
    ) -> Box<dyn Pieces>;

    /// Follows the changes of its cells, in this format.
    fn follow(&self, _: Followed, _: Box<dyn ChangeFormat>) -> Later<Result<Box<dyn Follower>, Error>> {
        Box::pin(ready(Err(Error::NoChanges)))
    }

    /// A step of a backup.
    fn backup(&self, _: BackupStep) -> Later<Result<BackupAnswer, Error>> {
        Box::pin(ready(Err(Error::NoBackups)))
    }

    /// Keeps deletions from now on, durably, for those who follow changes at this node or at others.
    fn keep_deletions(&self) -> Later<Result<(), StoreError>> {
        Box::pin(ready(Ok(())))
    }

    /// Makes everything durable that was applied by now, however durable it was to be.
    fn sync(&self) -> Later<Result<(), StoreError>>;

    /// Whether somebody follows changes here, or did within the last minute.
    fn is_followed(&self) -> bool {
        false
    }

    /// The cells of `span`, deletions included, as they are now. Each piece has whole cells, and one more than fit into a few
    /// ten kilobytes.
    fn cells_of(&self, span: KeySpan, format: CellFormat) -> Box<dyn Pieces>;

    /// The same from `start` on and before `end`, sorted by key.
    fn cells(&self, start: Bytes, end: Option<Bytes>, format: CellFormat) -> Box<dyn Pieces> {
        self.cells_of(KeySpan { start, end, is_reverse: false }, format)
    }
}

/// The newest cell of a key, as an update goes by it: of a large value there is its length.
pub type NewestCell = Cell<Bytes, u64>;

/// What an update may put in its place.
pub type NewCell<S> = Cell<Bytes, <<S as LocalStore>::Upload as Upload>::Finished>;

/// What a write does to a key: what there may be no room for, and what makes some.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// It gets a value.
    Put,
    /// It loses its value.
    Delete,
}
