//! What the product does, without sockets and without storage.
//!
//! - `key_value`: the operations; a node on its own and a cluster are two implementations of them
//! - `context`: what a request says beside its key; `precondition`: on what a write depends; `counter`: values that are numbers
//! - `decision`: what a write comes to that depends on what is there; `together`: the same of several that happen all or none;
//!   `transaction`: writes to several keys that depend on what was seen
//! - `error`: why the service does not do what it is asked; each protocol maps it in one place
//! - `store_error`: the part of that which a store says; `too_few_replicas`: the part of it which copies do not say
//! - `value`: a value in memory, or to be read piece by piece; `upload`: the same on its way in; `pieces`: the pieces, and how records are
//!   written into them
//! - `changes`: who is told of what changes; `key_span`: keys that follow each other
//! - `backup`: what a backup asks a node for
//! - `metric`: what a service and its store count, for `/metrics`
//!
//! A request is served in these steps: a protocol parses it, calls one function of [`KeyValue`], and answers. Nothing
//! here blocks a thread; what memory can answer is answered without a task switch.
#![forbid(unsafe_code)]

mod backup;
mod changes;
mod context;
mod counter;
mod decision;
mod error;
mod key_span;
mod key_value;
mod metric;
mod pieces;
mod precondition;
mod store_error;
mod together;
mod too_few_replicas;
mod transaction;
mod upload;
mod value;

pub use backup::{BackupAnswer, BackupStep, Begun, ClusterCut, LogKept, LogMember, LogSegment};
pub use changes::{ChangeFormat, ChangePiece, ChangedTo, Followed, Follower, Since, Told};
pub use context::Context;
pub use counter::{NUMBER_BYTES_MAX, incremented, parse_number};
pub use decision::{Sum, may_expire, may_write, sum};
pub use error::Error;
pub use key_span::KeySpan;
pub use key_value::{KeyRange, KeyValue, Scope};
pub use metric::{Distribution, Metric, MetricKind, MetricValue, Series};
pub use pieces::{Later, NoPieces, Piece, Pieces, RecordFormat};
pub use precondition::Precondition;
pub use store_error::{FencedCell, StoreError};
pub use together::{KeyChange, KeyWrite, KeyWritten, NotWritten, Together, decide_together};
pub use too_few_replicas::TooFewReplicas;
pub use transaction::{Changed, NewValue, Seen, Transaction};
pub use upload::Upload;
pub use value::{LargeValue, Lookup, StoredCell, Value};
