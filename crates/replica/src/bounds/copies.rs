//! Copies of large values that reads cause, from a replica that has the value to one that lacks it.
//!
//! If a client waits for the copy, because too few replicas have the value for later reads to see it, it runs at full speed.
//! Otherwise it is repair, and runs at the pace of repair, with no more than [`LARGE_COPIES_MAX`] at a time: each holds a piece
//! in memory, and places that the values of clients need as well. Copies beyond that are left to the next read and to
//! anti-entropy.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Failure, NodeId, Refusal, WriteAnswer};
use ladoga_model::{Value, Version};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::Pace;

/// Large values that a node copies at a time while no client waits for them.
const LARGE_COPIES_MAX: usize = 4;
/// Those that wait for that: twice as many as hints are on their way to a peer.
const LARGE_COPIES_WAITING_MAX: usize = 64;
/// Large values that anti-entropy takes over at a time. Each needs a place of a peer, which that peer's clients need as well.
const LARGE_PULLS_MAX: usize = 4;
/// Bytes of smaller values that anti-entropy writes at a time: half of what the commit queue takes however slow the disk is. The rest of it
/// is left to clients.
const PULLED_BYTES_MAX: u32 = 256 << 10;
/// How often a copy that waits looks whether a client waits for it by now.
const LOOK_EVERY_MS: u64 = 20;

/// The bound of a node's copies, for all of its event loops.
#[derive(Debug)]
pub(crate) struct CopyTurns {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
    refused: AtomicUsize,
    /// Those of anti-entropy have turns of their own: it has thousands to make, and reads would wait behind them.
    pulls: Arc<Semaphore>,
    pulled_bytes: Arc<Semaphore>,
    /// For who was refused a look for lack of room.
    looks: Semaphore,
}

impl Default for CopyTurns {
    fn default() -> CopyTurns {
        CopyTurns {
            free: Arc::new(Semaphore::new(LARGE_COPIES_MAX)),
            waiting: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            pulls: Arc::new(Semaphore::new(LARGE_PULLS_MAX)),
            pulled_bytes: Arc::new(Semaphore::new(PULLED_BYTES_MAX as usize)),
            looks: Semaphore::new(1),
        }
    }
}

impl CopyTurns {
    /// Copies that have their turn, those that wait for it, and those that were given up for lack of one.
    pub(crate) fn figures(&self) -> [usize; 3] {
        let under_way = LARGE_COPIES_MAX - self.free.available_permits();
        [under_way, self.waiting.load(Ordering::Relaxed), self.refused.load(Ordering::Relaxed)]
    }

    /// Waits for the turn of anti-entropy to take a value over, or a deletion.
    pub(crate) async fn pull(&self, value: Option<&Value<Bytes, u64>>) -> OwnedSemaphorePermit {
        let (turns, taken) = match value {
            Some(Value::Large(_)) => (&self.pulls, 1),
            Some(Value::Inline(bytes)) => (&self.pulled_bytes, bytes.len()),
            None => (&self.pulled_bytes, 0),
        };
        let taken = u32::try_from(taken).unwrap_or(u32::MAX).min(PULLED_BYTES_MAX);
        Arc::clone(turns).acquire_many_owned(taken).await.expect("it is never closed")
    }

    /// Waits for the turn of anti-entropy to look again what is here.
    pub(crate) async fn look(&self) -> SemaphorePermit<'_> {
        self.looks.acquire().await.expect("it is never closed")
    }

    fn refuse(&self) -> NotCopied {
        self.refused.fetch_add(1, Ordering::Relaxed);
        NotCopied::NoTurn
    }
}

/// Why a large value was not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotCopied {
    /// Its holder does not have it, or not any more.
    Gone,
    /// Its holder failed.
    BySource(Failure),
    /// The replica that lacks it did not take it.
    ByTarget(Failure),
    /// This node, or the replica that lacks it, has too much else to do.
    NoTurn,
}

impl NotCopied {
    /// Why the replica that lacks it did not take it.
    pub(crate) fn by_target(failure: Failure) -> NotCopied {
        match failure {
            Failure::Refused(Refusal::OverCapacity) => NotCopied::NoTurn,
            failure => NotCopied::ByTarget(failure),
        }
    }
}

/// A read that wants a copy made.
pub(crate) trait CopyReader {
    /// Whether a client waits for it.
    fn awaits(&self) -> bool;

    /// The copy of this version to the replica at `place` has ended, with the replica's answer or a failure.
    fn copied(self: Rc<Self>, place: usize, version: Version, outcome: Result<WriteAnswer, NotCopied>);
}

/// Identifies a copy: which value, to which node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CopyName {
    pub(crate) key: Bytes,
    pub(crate) version: Version,
    pub(crate) to: NodeId,
}

/// The answer to a request for a copy.
pub(crate) enum CopyRequest {
    /// To be made by the caller.
    New(Copying),
    /// It is being made already, and the reader will be notified.
    Joined,
    /// It is being made already, and no client has to wait for it.
    UnderWay,
}

/// The copies of an event loop.
#[derive(Default)]
pub(crate) struct Copies {
    under_way: RefCell<HashMap<CopyName, Rc<Readers>>>,
}

#[derive(Default)]
struct Readers(RefCell<Vec<(Weak<dyn CopyReader>, usize)>>);

impl Readers {
    fn is_awaited(&self) -> bool {
        self.0.borrow().iter().any(|(reader, _)| reader.upgrade().is_some_and(|reader| reader.awaits()))
    }

    /// Adds one. As many are kept as wait, and the first: a value that many read is not remembered for each. Answers those
    /// that were not kept.
    fn join(&self, reader: &Rc<dyn CopyReader>, place: usize) -> Vec<(Rc<dyn CopyReader>, usize)> {
        let mut readers = self.0.borrow_mut();
        let first = readers.len().min(1);
        let others = readers.split_off(first);
        let mut left = Vec::new();
        for (other, place) in others {
            match other.upgrade() {
                Some(awaiting) if awaiting.awaits() => readers.push((other, place)),
                Some(other) => left.push((other, place)),
                None => {}
            }
        }
        readers.push((Rc::downgrade(reader), place));
        left
    }
}

impl Copies {
    /// A reader wants a copy for the replica at `place`. The same one is made once at a time.
    pub(crate) fn wish(
        self: &Rc<Self>,
        turns: &Arc<CopyTurns>,
        name: CopyName,
        reader: &Rc<dyn CopyReader>,
        place: usize,
    ) -> CopyRequest {
        let readers = self.under_way.borrow().get(&name).map(Rc::clone);
        if let Some(readers) = readers {
            if !reader.awaits() {
                return CopyRequest::UnderWay;
            }
            for (left, place) in readers.join(reader, place) {
                // What it is told may have it wish for more.
                left.copied(place, name.version, Err(NotCopied::NoTurn));
            }
            return CopyRequest::Joined;
        }
        let readers = Rc::<Readers>::default();
        readers.join(reader, place);
        self.under_way.borrow_mut().insert(name.clone(), Rc::clone(&readers));
        let (copies, turns) = (Rc::clone(self), Arc::clone(turns));
        CopyRequest::New(Copying {
            copies,
            turns,
            name,
            readers,
            turn: None,
            outcome: Err(NotCopied::ByTarget(Failure::Broken)),
        })
    }
}

/// A copy that is being made. When it is dropped, the readers that joined it are notified.
///
/// Protocol: `begin piece* ends`.
pub(crate) struct Copying {
    copies: Rc<Copies>,
    turns: Arc<CopyTurns>,
    name: CopyName,
    readers: Rc<Readers>,
    turn: Option<OwnedSemaphorePermit>,
    outcome: Result<WriteAnswer, NotCopied>,
}

impl Copying {
    /// Waits for a turn, unless a client waits for the copy.
    pub(crate) async fn begin(&mut self) -> Result<(), NotCopied> {
        if self.readers.is_awaited() {
            return Ok(());
        }
        if self.turns.waiting.fetch_add(1, Ordering::Relaxed) >= LARGE_COPIES_WAITING_MAX {
            self.turns.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(self.turns.refuse());
        }
        let waits = Waits(Arc::clone(&self.turns));
        // (Polled on after each look: its place in the queue is kept.)
        let mut turn = pin!(Arc::clone(&self.turns.free).acquire_owned());
        loop {
            let look = Duration::from_millis(LOOK_EVERY_MS);
            match tokio::time::timeout(look, turn.as_mut()).await {
                Ok(turn) => {
                    self.turn = turn.ok();
                    break;
                }
                Err(_) if self.readers.is_awaited() => break,
                Err(_) => {}
            }
        }
        drop(waits);
        Ok(())
    }

    /// Waits until the next piece may go. If the last client that waited has gone, the copy needs a turn from now on.
    pub(crate) async fn piece(&mut self, pace: &Pace, bytes: u64) -> Result<(), NotCopied> {
        if self.readers.is_awaited() {
            return Ok(());
        }
        if self.turn.is_none() {
            let turn = Arc::clone(&self.turns.free).try_acquire_owned();
            self.turn = Some(turn.map_err(|_| self.turns.refuse())?);
        }
        pace.draw_piece(bytes).await;
        Ok(())
    }

    /// It is made, or will not be.
    pub(crate) fn ends(mut self, outcome: Result<WriteAnswer, NotCopied>) {
        self.outcome = outcome;
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        self.copies.under_way.borrow_mut().remove(&self.name);
        for (reader, place) in self.readers.0.take() {
            if let Some(reader) = reader.upgrade() {
                reader.copied(place, self.name.version, self.outcome);
            }
        }
    }
}

/// A copy that waits for its turn.
struct Waits(Arc<CopyTurns>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[path = "copies_tests.rs"]
mod tests;
