//! Which keys several nodes change at the same time, by conditional requests: those are decided at one of them.
//!
//! A node finds out as a replica, if the ballots of two coordinators meet there, and as a coordinator, if another one is faster. From
//! then on it forwards the requests for the key. The node that gets them knows through how many nodes the key is asked for, and says
//! so with each answer. So that ends when only one node is asked for the key any more.
//!
//! What is forgotten, because two keys have the same place here, costs a request that is decided in two places once more.

use ladoga_cluster::NodeId;
use parking_lot::Mutex;

/// For how long a key counts as shared after it was last seen to be.
const SHARED_MS: u64 = 5_000;
/// How many keys are remembered, each at its own place.
const PLACES: usize = 2_048;

/// The keys, by their hashes.
#[derive(Debug)]
pub(crate) struct SharedKeys {
    places: Box<[Mutex<Option<KeyUse>>]>,
}

/// Through which nodes a key was asked for.
#[derive(Debug, Clone, Copy)]
struct KeyUse {
    key_hash: u64,
    /// Through which the last time, as far as this node decides about the key, and when.
    last: Option<(NodeId, u64)>,
    /// Until when it is shared, in milliseconds of the monotonic clock.
    shared_until_ms: u64,
}

impl Default for SharedKeys {
    fn default() -> SharedKeys {
        SharedKeys { places: (0..PLACES).map(|_| Mutex::default()).collect() }
    }
}

impl SharedKeys {
    /// Two coordinators were in each other's way, or another node said that it is asked for the key through several.
    pub(crate) fn share(&self, key_hash: u64, now_ms: u64) {
        self.change(key_hash, |asked| asked.shared_until_ms = now_ms + SHARED_MS);
    }

    /// A request for the key is decided at this node; it came through a node, this one or another.
    pub(crate) fn decide(&self, key_hash: u64, through: NodeId, now_ms: u64) {
        self.change(key_hash, |asked| {
            let is_other = |(last, at_ms): (NodeId, u64)| last != through && now_ms < at_ms + SHARED_MS;
            if asked.last.is_some_and(is_other) {
                asked.shared_until_ms = now_ms + SHARED_MS;
            }
            asked.last = Some((through, now_ms));
        });
    }

    /// Whether the key is asked for through several nodes.
    pub(crate) fn is_shared(&self, key_hash: u64, now_ms: u64) -> bool {
        let asked = *self.place(key_hash).lock();
        asked.is_some_and(|asked| asked.key_hash == key_hash && now_ms < asked.shared_until_ms)
    }

    fn change(&self, key_hash: u64, change: impl FnOnce(&mut KeyUse)) {
        let mut place = self.place(key_hash).lock();
        let mut asked = place.filter(|asked| asked.key_hash == key_hash).unwrap_or(KeyUse {
            key_hash,
            last: None,
            shared_until_ms: 0,
        });
        change(&mut asked);
        *place = Some(asked);
    }

    fn place(&self, key_hash: u64) -> &Mutex<Option<KeyUse>> {
        &self.places[key_hash as usize % PLACES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: u64 = 7;

    #[test]
    fn a_key_is_shared_for_a_while_after_two_coordinators_met() {
        let keys = SharedKeys::default();
        assert!(!keys.is_shared(KEY, 0));
        keys.share(KEY, 10);
        assert!(keys.is_shared(KEY, 9 + SHARED_MS) && !keys.is_shared(KEY, 10 + SHARED_MS));
        assert!(!keys.is_shared(KEY + 1, 10));
        keys.share(KEY + PLACES as u64, 20);
        assert!(!keys.is_shared(KEY, 21), "another key has its place");
        assert!(keys.is_shared(KEY + PLACES as u64, 21));
    }

    #[test]
    fn who_decides_knows_through_how_many_nodes_a_key_is_asked_for() {
        let keys = SharedKeys::default();
        for now_ms in 0..3 {
            keys.decide(KEY, NodeId(1), now_ms);
        }
        assert!(!keys.is_shared(KEY, 3), "one node alone");
        keys.decide(KEY, NodeId(2), 2 + SHARED_MS);
        assert!(!keys.is_shared(KEY, 3 + SHARED_MS), "the other one was long ago");
        keys.decide(KEY, NodeId(1), 4 + SHARED_MS);
        assert!(keys.is_shared(KEY, 5 + SHARED_MS));
        // From now on one alone again.
        (5..9).for_each(|ms| keys.decide(KEY, NodeId(1), ms + SHARED_MS));
        assert!(!keys.is_shared(KEY, 4 + 2 * SHARED_MS));
    }
}
