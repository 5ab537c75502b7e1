//! The operating system's disk, clock, randomness and network (Linux).
//!
//! - `disk`: the file system, by `std::fs`
//! - `file`: one open file: positional reads and writes
//! - `ring`: reads that are under way while the thread does something else, by `io_uring`
//! - `syscall`: what `std` has no name for; with `ring` the only unsafe code of this crate
//! - `regular_file`: files of an operator, which are not of a store
//! - `clock`, `rng`: time and random numbers; `net`: TCP; `workers`: threads
//! - `cpu_times`: what threads and others have had of the CPUs; `cores`: who gets which

mod clock;
mod cores;
mod cpu_times;
mod disk;
mod file;
mod net;
mod regular_file;
mod ring;
mod rng;
mod syscall;
mod workers;

pub use clock::RealClock;
pub use cpu_times::{MachineTimes, ThreadTimes, machine_times, resident_bytes, thread_times};
pub use disk::RealDisk;
pub use net::{RealNet, keep_alive, unacknowledged_bytes};
pub use regular_file::read_regular_file;
pub use rng::RealRng;
pub use workers::Threads;

use crate::Env;
use std::io;
use std::sync::Arc;

/// The environment of a running process. From now on a file that would grow too long (`ulimit -f`) is an error instead of the
/// end of the process. Fails only if the system has no random seed.
pub fn env() -> io::Result<Env> {
    syscall::ignore_file_size_signal();
    Ok(Env {
        disk: Arc::new(RealDisk::new()),
        clock: Arc::new(RealClock::new()),
        rng: Arc::new(RealRng::from_system()?),
        net: Arc::new(RealNet::new()),
        workers: Arc::new(Threads),
    })
}
