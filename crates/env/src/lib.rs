//! The seams to the outside: disk, clock, randomness, network, and what runs beside event loops. Each has the real one and a simulated one; nothing else in
//! the workspace touches files, time or random numbers, and nothing else of a node the network.

mod clock;
mod descriptors;
mod disk;
mod net;
pub mod real;
mod replace;
mod rng;
pub mod sim;
mod workers;

pub use clock::{Clock, Priority};
pub use descriptors::is_out_of_descriptors;
pub use disk::{Disk, EndedRead, File, FileIdentity, FilePart, Lock, OpenMode, ReadRing};
pub use net::{Connecting, KeepAlive, Listener, Net, Resolved, Stream};
pub use replace::{ReplaceError, Replacement};
pub use rng::Rng;
pub use workers::{Turn, Worker, WorkerHandle, Workers};

use std::sync::Arc;

/// Everything outside that a component may reach.
#[derive(Clone)]
pub struct Env {
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Random numbers.
    pub rng: Arc<dyn Rng>,
    /// Other machines.
    pub net: Arc<dyn Net>,
    /// Work beside the event loops.
    pub workers: Arc<dyn Workers>,
}
