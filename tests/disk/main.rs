//! Full disks, and disks that return other bytes than were written.
//!
//! - `check`: `ladoga check`, which finds the damage
//! - `flipped`: nodes that read damaged bytes
//! - `log`: damage in the write-ahead log, and torn ends, which are no damage
//! - `full`: no space, and then space again
//! - `failing`: a disk that takes no more writes, with or without space
//! - `filled`: the data directories that these tests damage
//! - `beyond_memory`: more records than memory, read by `io_uring` and by threads
//! - `small_disk`: the disk that they fill up
#![expect(clippy::disallowed_methods, reason = "tests drive the real system from outside")]

#[path = "../support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "every test crate uses its part")]
mod support;

mod beyond_memory;
mod check;
mod failing;
mod filled;
mod flipped;
mod full;
mod log;
mod small_disk;
