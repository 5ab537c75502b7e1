//! Backups of stores on simulated disks.
//!
//! - `support`: stores, their models, and a source that needs no network
//! - `model`: what is restored is what was there, for nodes at random
//! - `crash`: a power cut at every step of taking, pruning and restoring
//! - `point`: points in time, by the log
//! - `faults`: full disks, sources that end, that lie or are damaged

mod crash;
mod faults;
mod model;
mod point;
mod support;
