//! Promises that cells have ended which may not be on the disk yet.

use std::collections::HashMap;

use ladoga_model::Version;

/// Of how many keys there are so many that the store is to be synced.
const MANY_KEYS: usize = 1_024;
/// How many keys there may be: nothing is promised meanwhile. That is more than come while the store is synced.
const KEYS_MAX: usize = 32_768;

/// Promises that were lifted. Writes need not be synced one by one, and then a power cut takes a cell that ended a promise. The promise
/// has to stand again after that: others may have accepted what it was given for, and the cells that it keeps out would win where
/// they do not know it. So each stays in the file until the store was synced.
#[derive(Default)]
pub(super) struct LiftedFences {
    /// The newest of each key, which includes the others, and when it was lifted.
    by_key: HashMap<u64, (Version, u64)>,
    /// Counts them.
    lifts: u64,
}

impl LiftedFences {
    pub(super) fn add(&mut self, key_hash: u64, fence: Version) {
        self.lifts += 1;
        let (newest, lifted) = self.by_key.entry(key_hash).or_default();
        (*newest, *lifted) = (fence.max(*newest), self.lifts);
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether one of this key may be added.
    pub(super) fn has_room_for(&self, key_hash: u64) -> bool {
        self.by_key.len() < KEYS_MAX || self.by_key.contains_key(&key_hash)
    }

    /// The number of the last one, if they are many.
    pub(super) fn many(&self) -> Option<u64> {
        (self.by_key.len() >= MANY_KEYS).then_some(self.lifts)
    }

    /// The store has been synced since the one with this number.
    pub(super) fn forget_up_to(&mut self, lift: u64) {
        self.by_key.retain(|_, (_, lifted)| *lifted > lift);
    }

    /// Whatever is older than this timestamp has arrived everywhere, and is on the disks.
    pub(super) fn forget_before(&mut self, timestamp: u64) {
        self.by_key.retain(|_, (fence, _)| fence.timestamp >= timestamp);
    }

    /// All of them, as (hash of the key, version).
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Version)> {
        self.by_key.iter().map(|(&key_hash, &(fence, _))| (key_hash, fence))
    }
}
