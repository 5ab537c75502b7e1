use std::convert::Infallible;
use std::ops::RangeInclusive;

use ladoga_model::{Cell, Value, Version};
use ladoga_replica::simulated::OvertakenCell;
use xxhash_rust::xxh3::xxh3_64;

use crate::values::Key;

/// A cell, as it is checked: with all of its value.
pub(crate) type CheckedCell = Cell<Vec<u8>, Infallible>;

/// How far the time of the cluster may be ahead of that of the world, by which values expire: as far as versions may be, and the
/// margin of clocks (decision 0033). It is behind by as much as versions are.
pub(crate) const AHEAD_MS_MAX: u64 = 62_000;
/// By how much versions may be given out in another order than that of time: two clocks that are right are 60 s apart, and
/// that of a node that was restarted is up to half a minute ahead of what it shows, or was down for 40 s and has not heard
/// of the others yet.
pub(crate) const APART_MS_MAX: u64 = 120_000;

/// How far off what values expire by may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) behind_ms: u64,
    pub(crate) ahead_ms: u64,
}

impl Default for Tolerance {
    /// While clocks of a minority are wrong, and others as far apart as clocks that are right.
    fn default() -> Tolerance {
        Tolerance { behind_ms: APART_MS_MAX, ahead_ms: AHEAD_MS_MAX }
    }
}

impl Tolerance {
    /// While all clocks show the time of the world: what they showed was on its way for so long.
    pub(crate) const OF_RIGHT_CLOCKS: Tolerance = Tolerance { behind_ms: 1_000, ahead_ms: 1 };
}

/// What a client is told of a key.
pub(crate) struct Found {
    /// The version, of a deletion as well.
    pub(crate) version: Option<Version>,
    pub(crate) value: Option<Vec<u8>>,
    /// Between what the time was by which it was decided whether it has expired, if it ever does, and if that was the time of the
    /// cluster.
    pub(crate) as_of_ms: Option<RangeInclusive<u64>>,
}

/// All of the value of a cell, if it has one.
pub(crate) fn value_of(cell: &CheckedCell) -> Option<&Vec<u8>> {
    cell.value.as_ref().map(|value| match value {
        Value::Inline(value) => value,
        Value::Large(never) => match *never {},
    })
}

/// What was written under a version.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) key: Key,
    pub(crate) at_ms: u64,
    /// The machine that gave it out.
    pub(crate) machine: Option<usize>,
    pub(crate) value: Option<Vec<u8>>,
    /// When it expires; 0 if it never does.
    pub(crate) expires_at_ms: u64,
    pub(crate) copies: usize,
    /// Whether only a disk that is lost ever had it. Then its version can be given out again, and nobody can tell.
    pub(crate) is_orphan: bool,
}

impl Written {
    /// Whether it is what a cell has: the value, or what is left of it once it has expired.
    pub(crate) fn is_in(&self, key: &Key, cell: &CheckedCell) -> bool {
        let is_left_over = cell.value.is_none() && self.expires_at_ms != 0;
        self.key == *key
            && self.expires_at_ms == cell.stamp.expires_at_ms
            && (is_left_over || self.value.as_ref() == value_of(cell))
    }

    /// Whether it is a deletion, or has surely become one by this time of the world.
    pub(crate) const fn may_be_nothing(&self, now_ms: u64) -> bool {
        let has_expired = self.expires_at_ms != 0 && self.expires_at_ms <= now_ms + AHEAD_MS_MAX;
        self.value.is_none() || has_expired
    }
}

/// Whether this is what a client was told of: the value of a large one is not known.
pub(crate) fn is_overtaken(cell: &OvertakenCell, key: &Key, value: Option<&[u8]>) -> bool {
    let is_value = cell.value.as_deref().is_none_or(|bytes| Some(bytes) == value);
    cell.key_hash == xxh3_64(key) && is_value
}
