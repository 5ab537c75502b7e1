//! What nodes say about themselves and of each other.

use crate::incarnation::Incarnation;
use crate::reach::{Memory, Reach};

/// What a node knows of another one's data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Acquaintance {
    /// Its incarnation; none if it has never been met.
    pub incarnation: Incarnation,
    /// Whether it had another one before: the data of that one are lost.
    pub is_replacement: bool,
}

/// What a node reports about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statement {
    /// Names the data directory; none before it is on disk.
    pub incarnation: Incarnation,
    /// No client's write before this is taken, no hint before it is kept.
    pub write_floor: u64,
    /// Everything before this is there, and nothing before it is taken.
    pub synced_before: u64,
    /// Whether it has all that it acknowledged.
    pub is_whole: bool,
    /// Its clock of versions.
    pub clock: u64,
    /// Whom it has met, by node.
    pub met: Vec<Acquaintance>,
    /// A random number for the process that reports; never 0.
    pub session: u64,
    /// How far it is in this session.
    pub reach: Reach,
    /// How far each other node's directory was, by node.
    pub remembered: Vec<Memory>,
    /// What its wall clock shows, as it is, in milliseconds since 1970.
    pub wall_ms: u64,
}
