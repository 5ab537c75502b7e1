//! A bucket of S3, or of a server that speaks its protocol, as a [`Disk`](ladoga_env::Disk): for repositories of backups.
//!
//! A file is an object. What is not complete yet (`*.new`) is in a directory of this machine; renaming it sends it, as a whole. Objects
//! are not changed after that. A lock is an object with a lease, which only servers with conditional writes can keep.
//!
//! - `place`, `settings`: which bucket; where, and as whom
//! - `client`: requests, again and again while that may help; `refusal`: what a server says instead
//! - `disk`: names, and what is done to them; `object`: reads one; `spool`: files that are not complete; `lease`: locks
#![forbid(unsafe_code)]

mod client;
mod disk;
mod lease;
mod object;
mod place;
mod refusal;
mod settings;
mod spool;

pub use disk::S3Disk;
pub use place::{BadPlace, Place};
pub use settings::{BadSettings, Settings};
