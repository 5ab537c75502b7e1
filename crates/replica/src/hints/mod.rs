//! Writes that are kept on disk for peers that missed them, until they are delivered.
//!
//! - `log`: the segments of one peer
//! - `keeper`: the thread that writes, reads and removes them, driven by `ladoga_cluster::HintQueue`
//!
//! A hint is not a replica's copy: only its delivery ever reads it.

mod keeper;
mod log;

pub(crate) use keeper::{Delivery, HintKeeper};
