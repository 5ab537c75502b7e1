//! Backups of stores on simulated disks.
//!
//! - `support`: stores, their models, and a source that needs no network
//! - `model`: what is restored is what was there, for nodes at random
//! - `crash`: a power cut at every step of taking, pruning and restoring
//! - `point`: points in time: whatever a node writes, and wherever it crashes; `writer`: a node that keeps its log, and its history
//! - `unreadable_log`: a node that cannot read some of what it kept
//! - `large_values`: those that a log names; `small_cells`: many of them
//! - `cluster_point`: points in time of a cluster; `group`: its nodes, and what each of them has
//! - `meanwhile`: what is pruned while it is verified, and what is not found for once
//! - `faults`: full disks, sources that end, that lie or are damaged

mod cluster_point;
mod crash;
mod faults;
mod group;
mod large_values;
mod meanwhile;
mod model;
mod packed;
mod point;
mod small_cells;
mod support;
mod unreadable_log;
mod writer;
