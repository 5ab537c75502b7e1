//! What this node has promised to conditional writes, on disk: which cells it does not take, as `ladoga_cluster::Fences` says.
//!
//! - `log`: the file; `record`: what stands in it
//! - `lifted`: promises that have ended, and not on disk
//! - `keeper`: the promises in memory, as the gate of the store asks for them, and the worker that writes them

mod keeper;
mod lifted;
mod log;
mod record;

pub(crate) use keeper::FenceKeeper;
pub(crate) use log::check;
