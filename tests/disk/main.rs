//! Disks that are full, and disks that give back something else than they were given.
//!
//! - `check`: `ladoga check`, which finds it
//! - `flipped`: nodes that read it
//! - `log`: damage in the write-ahead log, and torn ends, which are none
//! - `full`: no room, and then room again
//! - `failing`: a disk that takes no more writes, room or not
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
