//! A simulated disk, clock, randomness and network, the same for the same seed (as long as one thread uses them).
//!
//! - `disk`: the handle: the [`Disk`](crate::Disk) itself, and the controls for tests
//! - `file`: open files and held locks
//! - `state`: the state of the disk; every operation is one function of it
//! - `names`: directories, and the changes to them that are not durable yet
//! - `inode`: the bytes of one file, and the changes to them that are not durable yet
//! - `image`: sparse bytes that are cheap to copy
//! - `faults`: the operations that are to fail
//! - `power`: what a power cut leaves
//! - `ring`: several reads in flight at a time
//! - `clock`, `rng`: time that moves only when told to, and numbers from a seed
//! - `net`: hosts, and TCP between them; `workers`: tasks in place of threads

mod clock;
mod disk;
mod faults;
mod file;
mod image;
mod inode;
mod names;
mod net;
mod power;
mod ring;
mod rng;
mod state;
mod workers;

pub use clock::SimClock;
pub use disk::SimDisk;
pub use faults::{Fault, Operation};
pub use net::{SimHost, SimNet};
pub use power::{PowerCut, is_power_off};
pub use rng::SimRng;
pub use workers::Tasks;

use crate::Env;
use crate::real::Threads;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// An environment from one seed, with the handles by which a test reaches behind it.
pub fn env(seed: u64) -> (Env, SimDisk, SimClock) {
    let clock = SimClock::new();
    let disk = SimDisk::new(seed, clock.clone());
    // The disk's dice and the program's are apart, so that a change to the program does not move the faults.
    let rng = SimRng::new(!seed);
    // A host by itself; who needs others adds it to a network of theirs.
    let net = Arc::new(SimNet::new(seed).add_host("localhost", Ipv4Addr::LOCALHOST.into()));
    // Threads: not every test has a runtime for [`Tasks`].
    let workers = Arc::new(Threads);
    let env = Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(clock.clone()),
        rng: Arc::new(rng),
        net,
        workers,
    };
    (env, disk, clock)
}
