//! Many clients at a time, and badly behaved clients.
//!
//! - `writers`: clients that write at once, and see what they wrote
//! - `connections`: more connections than threads
//! - `descriptors`: no file can be opened, and no connection
//! - `overload`: more requests than there is room for
//! - `fair`: clients that take room from others, and make little use of it
//! - `lengths`: keys and values of every length, within the budget
//! - `slow`: clients that stop reading, or stop sending
//! - `batches`: many operations in one request
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod batches;
mod connections;
mod descriptors;
mod fair;
mod lengths;
mod overload;
mod slow;
mod writers;
