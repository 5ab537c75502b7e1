//! Acknowledged writes stay, whatever happens to the process.
//!
//! - `restarts`: nodes that are stopped, and nodes that are killed at rest
//! - `crashes`: nodes that are killed while they write, and a model of what they had acknowledged
//! - `model`: that model
//! - `draining`: how a node shuts down
//! - `lock`: one process for one directory
//! - `scenario`: all of it at once, at a size that fills several levels
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod crashes;
mod draining;
mod lock;
mod model;
mod restarts;
mod scenario;
