//! Files that a running node reads anew.
//!
//! - `watch`: when it does: on `SIGHUP`, and when they change
//! - `tls`: certificates, keys and authorities

mod tls;
mod watch;

pub(crate) use tls::{WatchedTls, tell_objections};
pub(crate) use watch::{Reload, watch};
