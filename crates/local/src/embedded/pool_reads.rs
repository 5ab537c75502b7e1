use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use ladoga_runtime::{OneShot, Supervisor};
use ladoga_storage::{BLOB_BYTES_MIN, Cell, PendingRead};
use parking_lot::Mutex;
use slab::Slab;

use super::commit::Inbox;
use super::pool::{DiskHandle, queue_is_full};
use super::{panicked, read_error};
use crate::store::StoreError;

/// What I/O threads may read for an event loop at a time, with what they have read and nobody has taken; a single read may be
/// longer.
const READS_BYTES_MAX: usize = 4 << 20;
/// Counted for a read of which it is not known yet how long its block is: about the longest one.
const BLOCK_BYTES_MAX: usize = BLOB_BYTES_MIN as usize;
/// Reads of an event loop that may wait for those.
const WAITING_READS_MAX: usize = 1024;

/// The answer to a point read.
pub(super) type Read = Result<Option<Cell>, StoreError>;

/// The point reads of one event loop that I/O threads do, since it has no ring, or since a table's index is not in memory.
///
/// A read runs to its end even if nobody waits for it any more.
pub(super) struct PoolReads {
    state: RefCell<PoolQueue>,
    ended: Arc<EndedReads>,
    disk: DiskHandle,
}

#[derive(Default)]
struct PoolQueue {
    /// Not left to the threads yet.
    waiting: VecDeque<(Box<PendingRead>, Rc<OneShot<Read>>)>,
    /// Left to them: how long each is, and where its answer goes.
    under_way: Slab<(usize, Rc<OneShot<Read>>)>,
    under_way_bytes: usize,
}

/// The way from the threads to the event loop.
struct EndedReads {
    untaken: Mutex<Untaken>,
    inbox: Arc<Inbox>,
}

#[derive(Default)]
struct Untaken {
    reads: Vec<(usize, Read)>,
    /// Waits for them.
    driver: Option<Waker>,
}

impl PoolReads {
    /// Hands on what the threads have read for as long as the event loop runs. Called within its runtime.
    pub(super) fn start(disk: DiskHandle, supervisor: &Supervisor) -> Rc<PoolReads> {
        let ended = EndedReads { untaken: Mutex::default(), inbox: Arc::clone(&disk.inbox) };
        let reads = Rc::new(PoolReads { state: RefCell::default(), ended: Arc::new(ended), disk });
        supervisor.spawn_local("pool reads", Rc::clone(&reads).run());
        reads
    }

    /// Goes on with a read that memory cannot answer.
    pub(super) fn go_on(&self, read: Box<PendingRead>) -> Rc<OneShot<Read>> {
        let answer = Rc::<OneShot<Read>>::default();
        self.finish(read, Rc::clone(&answer));
        answer
    }

    /// The same; its answer goes there.
    pub(super) fn finish(&self, read: Box<PendingRead>, answer: Rc<OneShot<Read>>) {
        let mut state = self.state.borrow_mut();
        if state.waiting.len() >= WAITING_READS_MAX {
            self.disk.pool.count_refused();
            return answer.set(Err(queue_is_full()));
        }
        state.waiting.push_back((read, answer));
        self.send(&mut state);
    }

    /// Leaves what may be under way to the threads.
    fn send(&self, state: &mut PoolQueue) {
        while let Some((read, _)) = state.waiting.front() {
            let bytes = read.needs().map_or(BLOCK_BYTES_MAX, |part| part.len);
            if state.under_way_bytes + bytes > READS_BYTES_MAX && !state.under_way.is_empty() {
                return;
            }
            let Some((read, answer)) = state.waiting.pop_front() else { return };
            state.under_way_bytes += bytes;
            let token = state.under_way.insert((bytes, answer));
            let delivery = Delivery { token, ended: Arc::clone(&self.ended), read: Err(queue_is_full()) };
            self.disk.pool.do_or_drop(move || delivery.read(read));
        }
    }

    /// Hands on what the threads have read, and leaves more to them.
    async fn run(self: Rc<Self>) {
        let mut handed_bytes = 0;
        loop {
            for (token, read) in self.ended.take().await {
                let mut state = self.state.borrow_mut();
                let (bytes, answer) = state.under_way.remove(token);
                state.under_way_bytes -= bytes;
                handed_bytes += bytes;
                answer.set(read);
            }
            self.send(&mut self.state.borrow_mut());
            if handed_bytes >= READS_BYTES_MAX {
                // Each answer keeps its value: who waits for it takes it before there are more.
                handed_bytes = 0;
                tokio::task::yield_now().await;
            }
        }
    }
}

impl EndedReads {
    /// Waits until there are some.
    async fn take(&self) -> Vec<(usize, Read)> {
        poll_fn(|context| {
            let mut untaken = self.untaken.lock();
            if untaken.reads.is_empty() {
                untaken.driver = Some(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut untaken.reads))
        })
        .await
    }
}

/// Delivers a read when it is dropped: if no thread takes it, that it was refused.
struct Delivery {
    token: usize,
    ended: Arc<EndedReads>,
    read: Read,
}

impl Delivery {
    fn read(mut self, read: Box<PendingRead>) {
        let done = catch_unwind(AssertUnwindSafe(|| read.finish().map_err(|error| read_error(&error))));
        self.read = done.unwrap_or_else(|_| Err(panicked()));
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let read = std::mem::replace(&mut self.read, Ok(None));
        let mut untaken = self.ended.untaken.lock();
        untaken.reads.push((self.token, read));
        let driver = untaken.driver.take();
        drop(untaken);
        if let Some(driver) = driver {
            self.ended.inbox.wake(driver);
        }
    }
}

#[cfg(test)]
#[path = "pool_reads_tests.rs"]
mod tests;
