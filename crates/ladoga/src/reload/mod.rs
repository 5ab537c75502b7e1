//! Files that a running node reads anew.
//!
//! - `watch`: when it does: on `SIGHUP`, and when they change
//! - `looks`: when what is found in them is complete
//! - `tls`: certificates, keys and authorities

mod looks;
mod tls;
mod watch;

pub(crate) use looks::Looks;
pub(crate) use tls::{WatchedTls, tell_objections};
pub(crate) use watch::{Reload, watch};
