//! The engine as a whole, over a simulated disk: against a model, through power cuts, failures, a full disk and decay.
//!
//! - `support`: a store on a simulated disk, the model that it is compared with, workloads
//! - `model`: any sequence of operations answers as a `BTreeMap` does
//! - `no_waiting`: writes of who must not wait
//! - `offline`: copies that are read where they are
//! - `asked`: writes that ask for a durability of their own
//! - `panics`: one of the threads is gone
//! - `workload`: what crash and fault tests let a store do, and what it has to answer afterwards
//! - `crash`: the power fails at every sync and at every operation, also while the store recovers
#![expect(clippy::unwrap_used, reason = "a test")]

mod asked;
mod corruption;
mod crash;
mod damage;
mod expiry;
mod faults;
mod footprint;
mod forged;
mod full;
mod hurry;
mod model;
mod no_waiting;
mod offline;
mod panics;
mod paused;
mod poison;
mod race;
mod reopen;
mod slow_disk;
mod space;
mod support;
mod threads;
mod watched_disk;
mod workload;
mod writers_panic;
