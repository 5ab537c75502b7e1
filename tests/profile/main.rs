//! Profiles of a running node, as people get them.
//!
//! - `asking`: who may ask for what
//! - `command`: `ladoga profile`
//! - `ending`: what ends a profile early
//! - `contents`: what profiles of a node under load say, in every format
//! - `load`: what a node is busy with meanwhile
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
