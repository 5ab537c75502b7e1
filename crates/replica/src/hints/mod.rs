//! Writes that are kept for peers that have not got them, on disk, until they are delivered.
//!
//! - `log`: the segments of one peer
//! - `keeper`: the thread that keeps, reads and forgets them, as `ladoga_cluster::HintQueue` says
//!
//! A hint is no copy: nothing but its delivery ever reads one.

mod keeper;
mod log;

pub(crate) use keeper::{Delivery, HintKeeper};
