//! Writes that are kept on disk for peers that missed them, until they are delivered.
//!
//! - `directories`: where those for a node are; `log`: the segments of one peer
//! - `keeper`: the thread that writes, reads and removes them, driven by `ladoga_cluster::HintQueue`
//!
//! A hint is not a replica's copy: only its delivery ever reads it.

mod directories;
mod keeper;
mod log;

pub(crate) use directories::{check, follow_names, remove_all};
pub(crate) use keeper::{Delivery, HintKeeper};
