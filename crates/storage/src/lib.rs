//! The LSM engine of Ladoga.
//!
//! A write goes to the log (`wal`), then into the `memtable`; a full memtable is sealed and written to a `table` in
//! level 0; `compaction` merges tables into deeper `levels`. A read asks the memtables, then the tables, newest first,
//! and takes the newest version it finds. Large values live in files of their own (`blob`).
//!
//! - `record`, `batch`, `coding`, `frame`: the bytes; `log_bytes`: those of a log that is longer than memory
//! - `prefixes`, `prefetch`: searches that the memory does not hold up
//! - `wal`, `memtable`, `table`, `blob`, `levels`: what they are kept in
//! - `compaction`, `pacing`, `health`: decisions, pure
//! - `record_cache`: records that stay in memory; for blocks that is `table::cache`
//! - `iterator`: sources of records in order, merged; `value`: what readers hold
//! - `engine`: holds it together
//! - `kept_log`, `log_file`: the log of the last hours, for backups; `segment_reader`: such a segment as its bytes come
//! - `check`, `checkpoint`: verification offline, copies by hard links; `table_list`: what a copy consists of; `offline`: a copy
//!   whose files are read where they are, without a store
//! - `restoring`: the mark on a directory while a restore fills it

mod batch;
mod blob;
mod check;
mod checkpoint;
mod coding;
mod compaction;
mod engine;
mod error;
mod frame;
pub mod fuzzing;
mod health;
mod iterator;
mod kept_log;
mod levels;
mod log_bytes;
mod log_file;
mod memtable;
mod offline;
mod options;
mod pacing;
mod paths;
mod prefetch;
mod prefixes;
mod record;
mod record_cache;
mod restoring;
mod segment_reader;
mod stats;
mod table;
mod table_list;
mod value;
mod wal;

pub use batch::{Fate, WriteBatch};
pub use blob::{BLOB_PIECE_BYTES, Blob, BlobWriter, FinishedBlob};
pub use check::{CheckProgress, CheckReport, LargeCheck, check};
pub use checkpoint::Copied;
pub use engine::{
    Cached, Engine, Newer, NewerStep, PendingRead, Progress, Range, RangeStep, ReadTier, Side, Snapshot,
};
pub use error::Error;
pub use health::WriteState;
pub use ladoga_model::Durability;
pub use log_file::{KeptSegment, LogFile};
pub use offline::{OfflineCells, OfflineStore};
pub use options::{Background, Compression, KeptDeletions, LEVELS, MEMORY_BYTES_MIN, Options};
pub use paths::{LOCK, LOST_AND_FOUND, RESTORING, count_tables};
pub use record::BLOB_BYTES_MIN;
pub use restoring::{begin_restore, end_restore};
pub use segment_reader::{LargeValue, LogCell, LogValue, SegmentReader};
pub use stats::{KeptStatistics, LATENCY_BOUNDS_US, Latencies, LevelStatistics, Statistics};
pub use table_list::{StoreFile, TableList};
pub use value::{Cell, Value, read_value};
