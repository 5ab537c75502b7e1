//! The seams to the outside: disk, clock, randomness, network. Each has the real one and a simulated one; nothing else in
//! the workspace touches files, time or random numbers, and nothing else of a node the network.

mod clock;
mod descriptors;
mod disk;
mod net;
mod reads;
pub mod real;
mod replace;
mod rng;
pub mod sim;

pub use clock::{Clock, Priority};
pub use descriptors::is_out_of_descriptors;
pub use disk::{Disk, File, FileIdentity, Lock, OpenMode};
pub use net::{Connecting, KeepAlive, Listener, Net, Resolved, Stream};
pub use reads::{EndedRead, FilePart, ReadRing};
pub use replace::{ReplaceError, Replacement};
pub use rng::Rng;

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
}
