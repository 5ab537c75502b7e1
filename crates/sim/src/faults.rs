//! What goes wrong.

use ladoga_env::Rng;
use ladoga_env::sim::{Fault as DiskFault, PowerCut, SimRng};

/// How far a clock may be moved from the time of the world, and still be right.
const SKEW_MS_MAX: i64 = 30_000;
/// How far a clock is moved that is wrong: beyond what any node takes, minutes and a day.
const WRONG_MS: [i64; 6] = [90_000, 180_000, 600_000, 86_400_000, -180_000, -86_400_000];

/// More than the processes between two disks that are lost, now and then.
pub(crate) const BACKUPS_MAX: usize = 6;

/// How far the wall clock of a machine is off.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Hands {
    /// How far it has been moved.
    pub(crate) skew_ms: i64,
    /// Until when others may go by what it showed while it was wrong.
    pub(crate) wrong_until_ms: u64,
}

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
    /// The process is suspended.
    Pause { node: usize, ms: u64 },
    /// The wall clock is set.
    Jump { node: usize, by_ms: i64 },
    /// Another disk is in the place of the old one.
    LoseDisk { node: usize, down_ms: u64, loss: Loss },
    /// One node is cut off; when it is back, another loses its disk, and the rest are cut off: those that know what the
    /// first one missed.
    LoseDiskAfterOutage { node: usize, absent: usize, ms: u64, loss: Loss },
}

impl Trouble {
    /// The same, which was drawn by places in a list, of the machines in it.
    pub(crate) fn of(self, list: &[usize]) -> Trouble {
        match self {
            Trouble::Cut { from, to, ms } => Trouble::Cut { from: list[from], to: list[to], ms },
            Trouble::Isolate { node, ms } => Trouble::Isolate { node: list[node], ms },
            Trouble::Lossy { .. } | Trouble::Slow { .. } => self,
            Trouble::Kill { node, down_ms } => Trouble::Kill { node: list[node], down_ms },
            Trouble::PowerCut { node, down_ms } => Trouble::PowerCut { node: list[node], down_ms },
            Trouble::PowerCutSoon { node, operation } => {
                Trouble::PowerCutSoon { node: list[node], operation }
            }
            Trouble::DiskFails { node, operation } => Trouble::DiskFails { node: list[node], operation },
            Trouble::DiskFull { node, ms } => Trouble::DiskFull { node: list[node], ms },
            Trouble::Pause { node, ms } => Trouble::Pause { node: list[node], ms },
            Trouble::Jump { node, by_ms } => Trouble::Jump { node: list[node], by_ms },
            Trouble::LoseDisk { node, down_ms, loss } => {
                Trouble::LoseDisk { node: list[node], down_ms, loss }
            }
            Trouble::LoseDiskAfterOutage { node, absent, ms, loss } => {
                Trouble::LoseDiskAfterOutage { node: list[node], absent: list[absent], ms, loss }
            }
        }
    }
}

/// What is not on the disk that is in the place of the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It is empty.
    All,
    /// The disk is rolled back to its state before a process began: the last one, or one so many before it; copied file by
    /// file, or as a whole. To a state of a node that had all its data, if there is one.
    Older { age: usize, is_copied: bool, was_whole: bool },
}

/// Draws the next fault. A disk is lost only if the others can make up for it.
pub(crate) fn next(rng: &SimRng, machines: &[Hands], may_lose_disk: bool) -> Trouble {
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
        16 | 17 => right_clock(rng, node, machines),
        18 if may_lose_disk => {
            let is_after_outage = rng.below(3) > 0;
            let loss = if rng.below(3) == 0 { Loss::All } else { older(rng) };
            if is_after_outage {
                Trouble::LoseDiskAfterOutage { node, absent: other, ms, loss }
            } else {
                Trouble::LoseDisk { node, down_ms, loss }
            }
        }
        18 => Trouble::Kill { node, down_ms: 40_000 },
        _ => Trouble::Isolate { node, ms: 40_000 },
    }
}

fn older(rng: &SimRng) -> Loss {
    let dice = rng.below(2 * BACKUPS_MAX as u64);
    let was_whole = rng.below(4) > 0;
    Loss::Older { age: dice as usize / 2, is_copied: dice.is_multiple_of(2), was_whole }
}

/// How long what a clock showed is gone by, and a little more.
pub(crate) const REMEMBERED_MS: u64 = 6_000;

/// Whether a clock is further off than clocks are.
pub(crate) const fn is_wrong(skew_ms: i64) -> bool {
    skew_ms.abs() > SKEW_MS_MAX
}

/// Draws how a clock goes wrong, and for how long. Those of a majority stay right, also as other nodes remember them.
pub(crate) fn wrong_clock(rng: &SimRng, machines: &[Hands], now_ms: u64) -> Option<(Trouble, u64)> {
    let node = rng.below(machines.len() as u64) as usize;
    let counts = |hands: &&Hands| is_wrong(hands.skew_ms) || now_ms < hands.wrong_until_ms;
    let (by_ms, ms) = (WRONG_MS[rng.below(WRONG_MS.len() as u64) as usize], 1_000 + rng.below(100_000));
    let others = machines
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != node)
        .map(|(_, hands)| hands)
        .filter(counts);
    let may_be_wrong = others.count() < (machines.len() - 1) / 2;
    may_be_wrong.then(|| (Trouble::Jump { node, by_ms: by_ms - machines[node].skew_ms }, ms))
}

/// Sets the clock of a node right, more or less.
pub(crate) fn right_clock(rng: &SimRng, node: usize, machines: &[Hands]) -> Trouble {
    let skew = rng.below(2 * SKEW_MS_MAX as u64 + 1) as i64 - SKEW_MS_MAX;
    Trouble::Jump { node, by_ms: skew - machines[node].skew_ms }
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
