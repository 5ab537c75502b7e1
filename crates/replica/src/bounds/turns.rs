//! Conditional requests of one key take turns at their coordinator: proposals that meet outbid each other, and all of them would
//! have to begin again. (For those of several coordinators, see `shared_keys`.)
//!
//! One queue for all event loops of a node, in the order in which the requests came. A request leaves it when its time is over or
//! its client is gone, and holds nobody up.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests of one key that wait at a node: what it can serve within the time of a request, and more.
const REQUESTS_PER_KEY_MAX: usize = 1_024;
/// Requests of all keys that have a turn or wait for one.
const REQUESTS_MAX: usize = 16_384;
/// Those of them that wait for their turn at another node. They share the queues of requests to it with all others.
const FORWARDED_MAX: usize = 2_048;

/// Why a request gets no turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoTurn {
    /// So many wait that one more is refused at once.
    Full,
    /// Its time was over before those that came first were done.
    TooLate,
}

/// Who has the turn of which key, by the hash of the key, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    keys: Mutex<Keys>,
}

#[derive(Debug, Default)]
struct Keys {
    by_hash: HashMap<u64, Queue>,
    /// In all queues.
    requests: usize,
    /// At other nodes.
    forwarded: usize,
}

#[derive(Debug)]
struct Queue {
    /// One permit, handed on in the order in which it was asked for.
    turn: Arc<Semaphore>,
    /// Who has the turn, and who waits for it.
    requests: usize,
}

/// The turn of a key, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    // Handed on before the place goes: whoever comes then finds the queue that the next one has the turn of, or none.
    _turn: OwnedSemaphorePermit,
    _place: QueuePlace,
}

/// A place in a queue.
#[derive(Debug)]
pub(crate) struct QueuePlace {
    turns: Arc<Turns>,
    key_hash: u64,
    is_forwarded: bool,
}

impl Turns {
    /// Waits for the turn of a key, so many milliseconds at most. Dropped, it waits no more.
    pub(crate) async fn wait(self: &Arc<Self>, key_hash: u64, wait_ms: u64) -> Result<Turn, NoTurn> {
        let (turn, place) = self.enter(key_hash, false)?;
        // Nobody closes it, so there is no other reason for an error.
        match tokio::time::timeout(Duration::from_millis(wait_ms), turn.acquire_owned()).await {
            Ok(Ok(turn)) => Ok(Turn { _turn: turn, _place: place }),
            Ok(Err(_)) | Err(_) => Err(NoTurn::TooLate),
        }
    }

    /// Takes a place for a request that gets its turn at another node: so those count as well.
    pub(crate) fn forward(self: &Arc<Self>, key_hash: u64) -> Result<QueuePlace, NoTurn> {
        self.enter(key_hash, true).map(|(_, place)| place)
    }

    fn enter(
        self: &Arc<Self>,
        key_hash: u64,
        is_forwarded: bool,
    ) -> Result<(Arc<Semaphore>, QueuePlace), NoTurn> {
        let mut keys = self.keys.lock();
        if keys.requests >= REQUESTS_MAX || (is_forwarded && keys.forwarded >= FORWARDED_MAX) {
            return Err(NoTurn::Full);
        }
        let queue = keys
            .by_hash
            .entry(key_hash)
            .or_insert_with(|| Queue { turn: Arc::new(Semaphore::new(1)), requests: 0 });
        if queue.requests >= REQUESTS_PER_KEY_MAX {
            return Err(NoTurn::Full);
        }
        queue.requests += 1;
        let turn = Arc::clone(&queue.turn);
        keys.requests += 1;
        keys.forwarded += usize::from(is_forwarded);
        Ok((turn, QueuePlace { turns: Arc::clone(self), key_hash, is_forwarded }))
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let mut keys = self.turns.keys.lock();
        keys.requests -= 1;
        keys.forwarded -= usize::from(self.is_forwarded);
        if let Entry::Occupied(mut queue) = keys.by_hash.entry(self.key_hash) {
            queue.get_mut().requests -= 1;
            if queue.get().requests == 0 {
                queue.remove();
            }
        }
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
