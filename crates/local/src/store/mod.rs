//! The narrow interface through which the node reaches its store: point read, apply versioned cells, stream a
//! range, statistics. The embedded engine is behind it; an external engine could be.
//!
//! What every write goes through is an associated type, and compiled into the caller; the rest is boxed.

mod cells;
mod gate;

pub use cells::{CellChange, CellFormat, CellObserver, SupersededCell};
pub use gate::{CellGate, Passage};
pub use ladoga_service::{
    Distribution, FencedCell, KeySpan, LargeValue, Later, Lookup, Metric, MetricKind, MetricValue, Piece,
    Pieces, RecordFormat, StoreError, StoredCell, Upload, Value,
};

use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ladoga_model::{Cell, Version};
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

    /// Why it does not take writes until somebody looks after it, where it does not.
    fn failure(&self) -> Option<String>;

    /// What it says about itself.
    fn metrics(&self) -> Vec<Metric>;

    /// Tells `observer` of every cell that takes the place of another from now on, and, in the background, of every cell
    /// that is there now; again and again until that has worked out. Called once, before anything is written. Fails where the system
    /// has no thread for it.
    fn observe(&self, observer: Arc<dyn CellObserver>) -> io::Result<()>;

    /// Has every cell pass this gate from now on. Called at most once, before anything is written.
    fn gate(&self, gate: Arc<dyn CellGate>);

    /// Tells the observer of every cell again, as at the beginning.
    fn tell_again(&self);

    /// Says that every write older than this has arrived, on every replica; deletions older than it may go.
    fn drop_tombstones_before(&self, timestamp: u64);

    /// Says that it is later than this by whichever clock counts; values that had expired by then may lose their bytes.
    fn drop_values_expired_before_ms(&self, time_ms: u64);

    /// Makes everything durable and stops. Nothing is asked of it any more.
    fn close(&self) -> Result<(), StoreError>;
}

/// A store, as one event loop reaches it. Nothing here blocks the thread.
pub trait LocalStore: 'static {
    /// An [`apply`](LocalStore::apply) under way. Dropping it does not undo it.
    type Apply: Future<Output = Result<Option<Version>, StoreError>> + 'static;
    /// A large value on its way in.
    type Upload: Upload<Finished: Send>;

    /// The newest cell of a key, deletions included: at once where memory can tell.
    fn get_cell(&self, key: &[u8]) -> Lookup;

    /// Whether a write with this many bytes of value would be taken now. Asked before the value is read.
    fn admit(&self, kind: WriteKind, value_bytes: u64) -> Result<(), StoreError>;

    /// Makes the cells durable and visible under their keys, however many they are. Where it fails, each of them may be so or
    /// not, unless it is [`Fenced`](StoreError::Fenced). A value in memory is shorter than what has to be uploaded. Answers the
    /// version of the last cell to which the gate gave another one.
    fn apply<'c>(
        &self,
        cells: impl IntoIterator<Item = (&'c [u8], Cell<&'c [u8], <Self::Upload as Upload>::Finished>)>,
    ) -> Self::Apply;

    /// Decides about a key by its newest cell, and writes the cell that is decided on, if it is one: nothing is written to the
    /// key in between. It must be newer than what it replaces, and its value in memory have at most so many bytes.
    ///
    /// Updates of a key that are committed together see each other, and what else is written with them. What is decided
    /// is answered once the cell, and what it was decided by, are durable; where that fails, the cell may be there or not. Where
    /// the newest cell cannot be read, nothing is decided. Dropped, it may happen or not.
    ///
    /// `decide` runs where groups are written, maybe on another thread and with a lock held: it must be quick, and must not
    /// wait.
    fn update<R: Send + 'static>(
        &self,
        key: &[u8],
        value_bytes_max: u64,
        decide: impl FnOnce(Option<NewestCell>) -> (Option<NewCell<Self>>, R) + Send + 'static,
    ) -> Later<Result<R, StoreError>>;

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
