//! What goes wrong.

use ladoga_env::Rng;
use ladoga_env::sim::{Fault as DiskFault, PowerCut, SimRng};

use crate::machine::Machine;

/// How far a clock may be moved from the time of the world.
const SKEW_MS_MAX: i64 = 30_000;

/// Something that goes wrong with the network or with one machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing gets from one node to another.
    Cut { from: usize, to: usize, ms: u64 },
    /// Nothing gets from or to a node.
    Isolate { node: usize, ms: u64 },
    /// Messages are lost, in a thousand.
    Lossy { per_mille: u64, ms: u64 },
    /// Messages take up to so long.
    Slow { delay_ms: u64, ms: u64 },
    /// The process ends.
    Kill { node: usize, down_ms: u64 },
    /// The power goes.
    PowerCut { node: usize, down_ms: u64 },
    /// The power goes in the middle of one of the next operations of the disk.
    PowerCutSoon { node: usize, operation: u64 },
    /// One of the next operations of the disk fails.
    DiskFails { node: usize, operation: u64 },
    /// There is no room.
    DiskFull { node: usize, ms: u64 },
    /// The process stands still.
    Pause { node: usize, ms: u64 },
    /// The wall clock is set.
    Jump { node: usize, by_ms: i64 },
    /// An empty disk is in the place of the old one.
    LoseDisk { node: usize, down_ms: u64 },
    /// One node is cut off; when it is back, another loses its disk, and the rest are cut off: those that know what the
    /// first one missed.
    LoseDiskAfterOutage { node: usize, absent: usize, ms: u64 },
}

/// Dices the next trouble. A disk is lost only where the others can make up for it.
pub(crate) fn next(rng: &SimRng, machines: &[Machine], may_lose_disk: bool) -> Trouble {
    let node = rng.below(machines.len() as u64) as usize;
    let other = (node + 1 + rng.below(machines.len() as u64 - 1) as usize) % machines.len();
    let ms = 200 + rng.below(8000);
    let down_ms = 100 + rng.below(5000);
    match rng.below(20) {
        0 | 1 => Trouble::Cut { from: node, to: other, ms },
        2 | 3 => Trouble::Isolate { node, ms },
        4 => Trouble::Lossy { per_mille: 50 + rng.below(400), ms },
        5 => Trouble::Slow { delay_ms: 50 + rng.below(1500), ms },
        6 | 7 => Trouble::Kill { node, down_ms },
        8 => Trouble::PowerCut { node, down_ms },
        9..=11 => Trouble::PowerCutSoon { node, operation: rng.below(40) },
        12 | 13 => Trouble::DiskFails { node, operation: rng.below(30) },
        14 => Trouble::DiskFull { node, ms },
        15 => Trouble::Pause { node, ms: if rng.below(8) == 0 { 90_000 } else { ms } },
        16 | 17 => {
            let skew = rng.below(2 * SKEW_MS_MAX as u64 + 1) as i64 - SKEW_MS_MAX;
            Trouble::Jump { node, by_ms: skew - machines[node].skew_ms }
        }
        18 if may_lose_disk && rng.below(2) == 0 => Trouble::LoseDiskAfterOutage { node, absent: other, ms },
        18 if may_lose_disk => Trouble::LoseDisk { node, down_ms },
        18 => Trouble::Kill { node, down_ms: 40_000 },
        _ => Trouble::Isolate { node, ms: 40_000 },
    }
}

pub(crate) fn policy(rng: &SimRng) -> PowerCut {
    match rng.below(4) {
        0 => PowerCut::LoseAll,
        1 => PowerCut::KeepAll,
        _ => PowerCut::Random,
    }
}

pub(crate) fn disk_fault() -> DiskFault {
    DiskFault::io()
}
