//! A whole cluster on one thread, from one seed: real storage engines on simulated disks, a simulated network, clocks
//! that jump, and every fault that a cluster has to survive. What must never happen is checked as it would happen.
//!
//! - `world`: what happens when; `faults`: what goes wrong; `clients`: who asks what
//! - `machine`: a disk, a clock and a process that dies and comes back
//! - `process`: a node, which drives the state machines of `ladoga_cluster` as the real one does; `operation`: one
//!   request that it coordinates; `replica`: what it holds; `keep`: what it must not forget
//! - `checker`: what must never happen
//!
//! The same seed gives the same run, to the last byte.
#![forbid(unsafe_code)]

mod checker;
mod clients;
mod faults;
mod keep;
mod machine;
mod operation;
mod process;
mod replica;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A bug that is planted, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// A replica says that it has a write, and has not.
    AckWithoutWriting,
    /// Tombstones go after a while, whoever has them.
    DropTombstonesByTime,
    /// A node that lost its disk answers as if it had not.
    VouchWhileRebuilding,
    /// A coordinator does not care that a replica has something newer.
    IgnoreNewerVersions,
    /// A write does not say for how many nodes it is.
    ForgetCopies,
    /// A node stamps and judges versions by its own wall clock, whatever the others' show.
    TrustOwnClock,
    /// A large value is written without knowing what is newest, and acknowledged although a replica has something newer.
    AcknowledgeStaleLarge,
    /// A node with an older state of its disk does not care that its peers remember a newer one.
    IgnoreRegressions,
}

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
    /// Requests that failed, or of which nobody knows.
    pub failed: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Messages that were delivered.
    pub messages: u64,
    /// Clocks that were set minutes or a day off.
    pub clocks_wrong: u64,
    /// Disks that were lost.
    pub disks_lost: u64,
    /// Disks that were brought back to an older state.
    pub backups_restored: u64,
    /// Tombstones that went.
    pub tombstones_dropped: u64,
    /// Values in files of their own that a replica stored.
    pub large_stored: u64,
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

/// Runs one seed.
pub fn run(seed: u64, bug: Option<Bug>) -> Result<Summary, Failure> {
    run_traced(seed, bug, false)
}

/// Runs one seed, and prints what happens.
pub fn run_traced(seed: u64, bug: Option<Bug>, traced: bool) -> Result<Summary, Failure> {
    let ran = catch_unwind(AssertUnwindSafe(|| world::World::new(seed, bug, traced).run()));
    let reason = match ran {
        Ok(Ok(summary)) => return Ok(summary),
        Ok(Err(reason)) => reason,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("it panicked: {}", text.unwrap_or("without a text"))
        }
    };
    Err(Failure { seed, reason })
}
