use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use ladoga_model::Cell;
use ladoga_storage::{Durability, FinishedBlob, WriteBatch};
use parking_lot::Mutex;
use slab::Slab;

use super::batches::{add_cell, batch_bytes_max, open_batch};
use super::inbox::{CommitResult, Inbox, Outcome, WaitingWrite};
use super::unit_cost::Cost;
use super::update::Update;
use crate::store::WriteKind;

/// The writes of one event loop that are not committed yet.
pub(in super::super) struct WriteQueue {
    /// By the durability that they are answered with.
    pending: Mutex<[Pending; Durability::ALL.len()]>,
    /// Whether the committer has taken some that is not written yet; set with `pending` locked.
    is_at_committer: AtomicBool,
    inbox: Arc<Inbox>,
    batch_bytes_max: usize,
    /// What is pending or being committed; written by the event loop alone.
    queued_units: AtomicU64,
    queued_bytes: AtomicU64,
}

/// Writes that were not taken by the committer yet.
#[derive(Default)]
pub(super) struct Pending {
    pub(super) puts: PendingWrites,
    pub(super) deletes: PendingWrites,
    pub(super) updates: PendingUpdates,
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.puts.is_empty() && self.deletes.is_empty() && self.updates.updates.is_empty()
    }
}

/// Writes that share their fate.
#[derive(Default)]
pub(super) struct PendingWrites {
    pub(super) batches: Vec<WriteBatch>,
    /// The requests that wait for them.
    pub(super) waiting: Vec<WaitingWrite>,
    pub(super) load: Cost,
}

impl PendingWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }
}

/// Decisions that are still to be taken.
#[derive(Default)]
pub(super) struct PendingUpdates {
    pub(super) updates: Vec<Update>,
    /// The requests that wait, one for each update.
    pub(super) waiting: Vec<WaitingWrite>,
    pub(super) load: Cost,
}

impl WriteQueue {
    /// Of an engine whose groups are at most so long.
    pub(super) fn new(inbox: Arc<Inbox>, group_bytes_max: usize) -> WriteQueue {
        WriteQueue {
            pending: Mutex::default(),
            is_at_committer: AtomicBool::new(false),
            inbox,
            batch_bytes_max: batch_bytes_max(group_bytes_max),
            queued_units: AtomicU64::new(0),
            queued_bytes: AtomicU64::new(0),
        }
    }

    /// Encodes cells that one waits for, and remembers who. However many they are, each batch fits into a group. On the event
    /// loop.
    pub(in super::super) fn push<'c>(
        &self,
        (kind, durability): (WriteKind, Durability),
        cells: impl IntoIterator<Item = (&'c [u8], Cell<&'c [u8], FinishedBlob>)>,
        waiter: u32,
    ) {
        let mut all = self.pending.lock();
        let pending = &mut all[durability as usize];
        let part = match kind {
            WriteKind::Put => &mut pending.puts,
            WriteKind::Delete => &mut pending.deletes,
        };
        // Even without cells there must be a batch, so that whoever waits is answered.
        open_batch(&mut part.batches, self.batch_bytes_max);
        let (mut bytes, mut count) = (0, 0);
        for (key, cell) in cells {
            bytes += add_cell(open_batch(&mut part.batches, self.batch_bytes_max), key, cell);
            count += 1;
        }
        let load = Cost::of_entry(bytes as u64);
        part.load = part.load + load;
        part.waiting.push(WaitingWrite { waiter, cells: count });
        drop(all);
        self.set_queued(self.queued() + load);
    }

    /// Queues an update, and who waits for it. On the event loop.
    pub(in super::super) fn push_update(&self, update: Update, durability: Durability, waiter: u32) {
        let load = Cost::of_entry(update.bytes_max() as u64);
        let mut pending = self.pending.lock();
        let part = &mut pending[durability as usize].updates;
        part.updates.push(update);
        part.waiting.push(WaitingWrite { waiter, cells: 0 });
        part.load = part.load + load;
        drop(pending);
        self.set_queued(self.queued() + load);
    }

    /// The durabilities of what there is to take, from the weakest to the strongest.
    pub(super) fn durabilities(&self) -> impl Iterator<Item = Durability> + use<> {
        let has_some = self.pending.lock().each_ref().map(|pending| !pending.is_empty());
        Durability::ALL.into_iter().filter(move |&durability| has_some[durability as usize])
    }

    /// Takes everything of a durability. On the committer, which says when that is [done](WriteQueue::end_of_commit).
    pub(super) fn take(&self, durability: Durability) -> Pending {
        let mut all = self.pending.lock();
        let taken = std::mem::take(&mut all[durability as usize]);
        if !taken.is_empty() {
            self.is_at_committer.store(true, Ordering::Relaxed);
        }
        taken
    }

    /// What was taken is written, or never will be. On the committer.
    pub(super) fn end_of_commit(&self) {
        self.is_at_committer.store(false, Ordering::Release);
    }

    /// Takes everything of a durability. On the event loop: `None` while the committer has something that came before, which
    /// would get a newer version if it were written later.
    pub(super) fn take_in_turn(&self, durability: Durability) -> Option<Pending> {
        let mut all = self.pending.lock();
        let is_first = !self.is_at_committer.load(Ordering::Acquire);
        is_first.then(|| std::mem::take(&mut all[durability as usize]))
    }

    /// Gives back what was taken. On the event loop, before anything else is pushed.
    pub(super) fn put_back(&self, (kind, durability): (WriteKind, Durability), part: PendingWrites) {
        let pending = &mut self.pending.lock()[durability as usize];
        let place = match kind {
            WriteKind::Put => &mut pending.puts,
            WriteKind::Delete => &mut pending.deletes,
        };
        assert!(place.is_empty(), "nothing is pushed between taking and giving back");
        *place = part;
    }

    /// The same for updates.
    pub(super) fn put_back_updates(&self, durability: Durability, part: PendingUpdates) {
        let pending = &mut self.pending.lock()[durability as usize];
        assert!(pending.updates.updates.is_empty(), "nothing is pushed between taking and giving back");
        pending.updates = part;
    }

    /// Whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.lock().iter().all(Pending::is_empty)
    }

    /// Says what became of writes. On the committer.
    pub(super) fn deliver(&self, result: CommitResult) {
        self.inbox.deliver(result);
    }

    /// Writes are no longer queued. On the event loop.
    pub(super) fn leave(&self, load: Cost) {
        self.set_queued(self.queued() - load);
    }

    /// What is pending or being committed.
    pub(super) fn queued(&self) -> Cost {
        Cost {
            units: self.queued_units.load(Ordering::Relaxed),
            bytes: self.queued_bytes.load(Ordering::Relaxed),
        }
    }

    fn set_queued(&self, load: Cost) {
        self.queued_units.store(load.units, Ordering::Relaxed);
        self.queued_bytes.store(load.bytes, Ordering::Relaxed);
    }
}

/// The requests of an event loop that wait for writes.
#[derive(Default)]
pub(in super::super) struct Waiters {
    slots: RefCell<Slab<Waiter>>,
}

enum Waiter {
    /// The write is not decided yet.
    Waiting(Option<Waker>),
    /// The write is decided, but the request has not seen it yet.
    Decided(Outcome),
    /// For nothing: the connection is gone.
    Gone,
}

impl Waiters {
    /// A place to wait in.
    pub(in super::super) fn enter(&self) -> u32 {
        u32::try_from(self.slots.borrow_mut().insert(Waiter::Waiting(None))).expect("fewer writes than 2^32")
    }

    /// Hands an outcome to all who wait for it.
    pub(in super::super) fn receive(&self, write_queue: &WriteQueue, result: CommitResult) {
        write_queue.leave(result.load);
        let mut slots = self.slots.borrow_mut();
        let mut exceptions = result.exceptions.into_iter().peekable();
        for WaitingWrite { waiter, .. } in result.waiting {
            let exception = exceptions.next_if(|(of, _)| *of == waiter);
            let outcome = exception.map_or_else(|| result.outcome.clone(), |(_, outcome)| outcome);
            let index = waiter as usize;
            match std::mem::replace(&mut slots[index], Waiter::Decided(outcome)) {
                Waiter::Waiting(Some(waker)) => waker.wake(),
                Waiter::Waiting(None) => {}
                Waiter::Gone => drop(slots.remove(index)),
                Waiter::Decided(_) => unreachable!("a write is decided once"),
            }
        }
    }
}

/// A write under way. Dropping it does not undo it.
pub struct Applied(State);

enum State {
    Waiting { waiters: Rc<Waiters>, index: u32 },
    Over,
}

impl Applied {
    pub(in super::super) fn waiting(waiters: Rc<Waiters>, index: u32) -> Applied {
        Applied(State::Waiting { waiters, index })
    }
}

impl Future for Applied {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let State::Waiting { waiters, index } = &self.0 else { return Poll::Pending };
        let index = *index as usize;
        let mut slots = waiters.slots.borrow_mut();
        match &mut slots[index] {
            Waiter::Waiting(waker) => {
                if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                    *waker = Some(context.waker().clone());
                }
                return Poll::Pending;
            }
            Waiter::Decided(_) => {}
            Waiter::Gone => unreachable!("who polls is there"),
        }
        let Waiter::Decided(outcome) = slots.remove(index) else { unreachable!("it was looked at") };
        drop(slots);
        self.0 = State::Over;
        Poll::Ready(outcome)
    }
}

impl Drop for Applied {
    fn drop(&mut self) {
        if let State::Waiting { waiters, index } = &self.0 {
            let mut slots = waiters.slots.borrow_mut();
            let index = *index as usize;
            match slots[index] {
                Waiter::Decided(_) => drop(slots.remove(index)),
                _ => slots[index] = Waiter::Gone,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::{KEY_BYTES_MAX, Stamp, Value, Version};
    use ladoga_storage::BLOB_BYTES_MIN;

    use super::*;
    use crate::store::StoreError;

    fn result(waiters: &[u32], outcome: Outcome, exceptions: Vec<(u32, Outcome)>) -> CommitResult {
        let waiting = waiters.iter().map(|&waiter| WaitingWrite { waiter, cells: 1 }).collect();
        CommitResult { waiting, load: Cost::default(), outcome, exceptions }
    }

    #[test]
    fn no_batch_is_too_large_for_a_group_however_much_is_pushed_at_once() {
        const GROUP_BYTES_MAX: usize = 512 << 10;
        let write_queue = WriteQueue::new(Arc::default(), GROUP_BYTES_MAX);
        let largest = vec![7; BLOB_BYTES_MIN as usize - 1];
        let key = [b'k'; KEY_BYTES_MAX];
        let sizes = [60 << 10, 10, largest.len(), largest.len(), 70 << 10, largest.len(), 10];
        let stamp = Stamp::new(Version { timestamp: 1, node: 0 });
        let cells =
            sizes.map(|bytes| (&key[..], Cell { stamp, value: Some(Value::Inline(&largest[..bytes])) }));
        write_queue.push((WriteKind::Put, Durability::Always), cells, 3);
        write_queue.push((WriteKind::Delete, Durability::Always), [], 4);
        write_queue.push((WriteKind::Put, Durability::Never), [], 5);
        assert!(write_queue.durabilities().eq([Durability::Never, Durability::Always]));
        let Pending { puts, deletes, .. } = write_queue.take(Durability::Always);
        assert!(write_queue.durabilities().eq([Durability::Never]) && !write_queue.is_empty());
        let encoded: Vec<usize> = puts.batches.iter().map(WriteBatch::encoded_bytes).collect();
        assert!(encoded.iter().all(|&bytes| bytes <= GROUP_BYTES_MAX), "{encoded:?}");
        assert_eq!(puts.batches.iter().map(WriteBatch::len).sum::<usize>(), sizes.len());
        let waiting = |waiter, cells| vec![WaitingWrite { waiter, cells }];
        assert_eq!((puts.waiting, puts.load.bytes), (waiting(3, 7), encoded.iter().sum::<usize>() as u64));
        assert_eq!((deletes.waiting, deletes.batches.len()), (waiting(4, 0), 1));
    }

    #[test]
    fn an_outcome_reaches_those_who_wait_and_no_slot_is_left_behind() {
        let waiters = Rc::new(Waiters::default());
        let write_queue = WriteQueue::new(Arc::default(), 512 << 10);
        let mut seats: Vec<_> =
            (0..6).map(|_| Applied::waiting(Rc::clone(&waiters), waiters.enter())).collect();
        let mut context = Context::from_waker(Waker::noop());
        let gone = seats.remove(3);
        drop(gone);
        assert!(Pin::new(&mut seats[0]).poll(&mut context).is_pending());
        let full = StoreError::NoRoom { reason: "full".into() };
        let renewed = Some(Version { timestamp: 7, node: 0 });
        waiters.receive(
            &write_queue,
            result(&[0, 3, 4, 5], Ok(None), vec![(3, Err(full.clone())), (4, Ok(renewed))]),
        );
        waiters.receive(&write_queue, result(&[1, 2], Err(full.clone()), Vec::new()));
        assert_eq!(Pin::new(&mut seats[0]).poll(&mut context), Poll::Ready(Ok(None)));
        assert_eq!(Pin::new(&mut seats[1]).poll(&mut context), Poll::Ready(Err(full)));
        assert_eq!(Pin::new(&mut seats[3]).poll(&mut context), Poll::Ready(Ok(renewed)));
        assert_eq!(Pin::new(&mut seats[4]).poll(&mut context), Poll::Ready(Ok(None)));
        drop(seats);
        assert!(waiters.slots.borrow().is_empty());
    }
}
