//! A whole cluster on one thread, from one seed: real storage engines on simulated disks, a simulated network, clocks that
//! jump, and every fault that a cluster has to survive. Every promise is checked at the moment at which it could break.
//!
//! - `world`: the sequence of events; `faults`: what goes wrong; `clients`: the requests
//! - `scenes`: requests and faults that meet at the moments at which conditional writes are most easily broken
//! - `lists`: how the list of nodes changes in a run
//! - `machine`: a disk, a clock and a process that dies and comes back: the shipping `replica`, `local` and `storage`
//! - `request`: one request, as it asks the node that coordinates it; `store`: what becomes durable, told to the checker
//! - `values`: what keys and values say; `questions`: what each node is asked in the end
//! - `follower`: what a client was told that follows changes
//! - `checker`: what must never happen, by the versions, of each of which `written` says what it is; `histories`: whether what
//!   clients were told has an order, by the values; `tally`: what counters come to; `one_copy`:
//!   what reads give of keys that one node has
//!
//! A process is a set of tasks: not to run it is to freeze it, to drop it is to kill it. The same seed gives the same run, to
//! the last byte.
#![forbid(unsafe_code)]

mod checker;
mod clients;
mod faults;
mod follower;
mod histories;
mod lists;
mod machine;
mod one_copy;
mod questions;
mod request;
mod scenes;
mod store;
mod tally;
mod values;
mod world;
mod written;

use std::cell::RefCell;
use std::fmt;
use std::ops::AddAssign;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

pub use ladoga_replica::simulated::Bug;

/// From how many bytes on a value counts as one that does not fit into memory. Small, so that runs stay fast.
const LARGE_BYTES_MIN: usize = 1024;

fn is_large(value: &[u8]) -> bool {
    value.len() >= LARGE_BYTES_MIN
}

/// What happened in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests that succeeded.
    pub succeeded: u64,
    /// Requests that failed, or whose outcome is unknown.
    pub failed: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Packets that were delivered.
    pub messages: u64,
    /// Clocks that were set minutes or a day off.
    pub clocks_wrong: u64,
    /// Disks that were lost.
    pub disks_lost: u64,
    /// Disks that were brought back to an older state.
    pub backups_restored: u64,
    /// Times that the list of nodes was changed.
    pub lists_changed: u64,
    /// Tombstones that went.
    pub tombstones_dropped: u64,
    /// Values in files of their own that a replica stored.
    pub large_stored: u64,
    /// Reads that were told nothing, because a value had expired.
    pub told_expired: u64,
    /// Changes that who follows was told.
    pub changes_told: u64,
    /// Keys with more requests than are checked for an order.
    pub histories_cut_short: u64,
    /// A hash of everything that happened.
    pub trace: u64,
}

/// What happened in several runs.
impl AddAssign for Summary {
    fn add_assign(&mut self, run: Summary) {
        self.succeeded += run.succeeded;
        self.failed += run.failed;
        self.faults += run.faults;
        self.messages += run.messages;
        self.clocks_wrong += run.clocks_wrong;
        self.disks_lost += run.disks_lost;
        self.backups_restored += run.backups_restored;
        self.lists_changed += run.lists_changed;
        self.tombstones_dropped += run.tombstones_dropped;
        self.large_stored += run.large_stored;
        self.told_expired += run.told_expired;
        self.changes_told += run.changes_told;
        self.histories_cut_short += run.histories_cut_short;
        self.trace = self.trace.rotate_left(1) ^ run.trace;
    }
}

/// A run that broke a promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What repeats it.
    pub seed: u64,
    /// Which promise, and how.
    pub reason: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.reason)
    }
}

impl std::error::Error for Failure {}

/// What clients ask for, and what goes wrong beside it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Load {
    /// Reads and writes, and faults at any time.
    #[default]
    Plain,
    /// The same with conditional writes, too, and numbers that are added to.
    Conditional,
    /// A few requests at a time on three nodes, with faults that meet them between two steps of a protocol.
    Targeted,
    /// As with conditional writes, while the list of nodes changes.
    Relisted,
}

/// How a seed is run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// A bug that is planted.
    pub bug: Option<Bug>,
    /// Whether what happens is printed.
    pub is_traced: bool,
    /// What clients ask for, and what goes wrong beside it.
    pub load: Load,
    /// Whether what clients were told need have no order: to see what else shows.
    pub skips_histories: bool,
}

/// Runs one seed.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<Summary, Failure> {
    run_with(seed, Settings { bug, ..Settings::default() })
}

/// Runs one seed with these settings.
pub fn run_with(seed: u64, settings: Settings) -> Result<Summary, Failure> {
    watch_panics();
    let _ = taken_panic();
    let ran = catch_unwind(AssertUnwindSafe(|| world::run(seed, settings)));
    let reason = match ran {
        Ok(Ok(summary)) => return Ok(summary),
        Ok(Err(reason)) => reason,
        Err(_) => taken_panic().unwrap_or_else(|| "it panicked".to_owned()),
    };
    Err(Failure { seed, reason })
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// The first panic on this thread since the last call: a task that panics ends, and nothing else reports it.
fn taken_panic() -> Option<String> {
    PANIC.with_borrow_mut(Option::take)
}

fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANIC.with_borrow_mut(|first| _ = first.get_or_insert_with(|| format!("it panicked: {panic}")));
            before(panic);
        }));
    });
}
