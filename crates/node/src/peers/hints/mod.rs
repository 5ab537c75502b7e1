//! Writes that are kept for peers that have not got them, on disk, until they are delivered.
//!
//! - `log`: the segments of one peer
//! - `keeper`: the thread that keeps, reads and forgets them, as `ladoga_cluster::HintQueue` says
//! - `deliver`: how they get to their peers, on an event loop
//!
//! A hint is no copy: nothing but `deliver` ever reads one.

mod deliver;
mod keeper;
mod log;

pub(crate) use deliver::deliver;
pub(crate) use keeper::HintKeeper;
