//! The commands that people type: their output, their refusals, and their exit codes.
//!
//! - `help`: the binary's own help
//! - `settings`: wrong ones are named before anything is opened
//! - `precedence`: a flag wins over the environment, which wins over the file
//! - `client`: `get`, `put`, `delete`, `range`, `status`; `ranges`: parts of a range, and how many keys it has
//! - `batch`: many operations from a file; `transfer`: all records into a file, and back; `copy`: all records from one node to another
//! - `sent_again`: what an import sends again
//! - `reasons`: what cannot be read, printed or opened is named, and one is not many
//! - `unread`: nobody reads the output of those that have work to do
//! - `changes`: `ladoga changes`, over the crash of a node
//! - `strangers`: what servers answer that are no nodes
//! - `repair`: `ladoga repair`, against a server that answers as a test says (`in_order`)
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod batch;
mod changes;
mod client;
mod copy;
mod help;
mod in_order;
mod precedence;
mod ranges;
mod reasons;
mod repair;
mod sent_again;
mod settings;
mod strangers;
mod transfer;
mod unread;
