//! Profiles of a running node, as people get them.
//!
//! - `asking`: requests for profiles
//! - `command`: `ladoga profile`
//! - `ending`: what ends a profile early
//! - `contents`: profiles of a node under load, in every format
//! - `load`: the load meanwhile
//! - `diff`: two profiles, compared
//! - `pages`: flame graph and heat map in a real browser
//! - `pprof`: the format of pprof, read back
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod asking;
mod command;
mod contents;
mod diff;
mod ending;
mod load;
mod pages;
mod pprof;
