//! Storage engines in this process, behind one interface, and `RocksDB` through its own benchmark.
//!
//! | module | is |
//! | --- | --- |
//! | [`ladoga`] | ours |
//! | [`fjall`] | an LSM library in Rust |
//! | [`rocksdb`] | `db_bench`, as the distribution builds it |
//! | [`measure`] | the loops that are timed |
//!
//! Equal terms: the same keys (16 bytes, as `db_bench` makes them), values of the same length that do not compress, each
//! key written once in scattered order, the same memory for caches, bloom filters of ten bits, and the same durability.
//! A read that misses fails the comparison.

mod fjall;
pub(crate) mod ladoga;
pub(crate) mod measure;
pub(crate) mod rocksdb;

use std::path::Path;

use crate::stop::Outcome;

/// What each engine may use.
pub(crate) const MEMORY_BYTES: u64 = 1 << 30;
pub(crate) const VALUE_BYTES: usize = 100;
pub(crate) const KEY_BYTES: usize = 16;

/// When a put returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// With the record in the log, handed to the operating system.
    Never,
    /// With the record on disk.
    Always,
}

/// An open store.
pub(crate) trait Store: Send + std::marker::Sync {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome;

    /// The length of the value.
    fn get(&self, key: &[u8]) -> Outcome<Option<usize>>;

    /// Writes what is in memory to tables, so that a store that is opened again reads from those.
    fn close(self: Box<Self>) -> Outcome;
}

/// An engine that runs in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    /// How it was set up, for people.
    pub(crate) settings: &'static str,
    pub(crate) open: fn(&Path, Sync) -> Outcome<Box<dyn Store>>,
}

pub(crate) const ENGINES: [Engine; 2] = [
    Engine {
        name: "ladoga",
        settings: "in process: Options::new(1 GiB, Never or Always)",
        open: |folder, sync| ladoga::open(folder, sync, MEMORY_BYTES),
    },
    Engine {
        name: "fjall",
        settings: "in process: cache of 1 GiB, defaults otherwise; synced: insert, then persist(SyncData)",
        open: fjall::open,
    },
];

/// The keys of `db_bench`: the number in 8 bytes, big-endian, then zeros.
pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}
