use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use ladoga_env::{EndedRead, FilePart, ReadRing};
use ladoga_storage::{PendingRead, Progress};
use slab::Slab;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::pool::queue_is_full;
use super::pool_reads::{PoolReads, Read};
use super::{panicked, read_error};
use crate::store::Metric;
use ladoga_runtime::{OneShot, Supervisor};

/// Reads of the disk that an event loop has under way at a time.
pub(super) const RING_READS_MAX: usize = 256;
/// What they may read together; a single one may be longer. Once as much has been read, those who wait for it have their turn
/// before more is: what the system has in memory is there as soon as it is asked for, and each answer keeps its value.
const RING_BYTES_MAX: usize = 4 << 20;
/// Reads of an event loop that may wait for those.
const RING_QUEUE_READS_MAX: usize = 1024;
/// After the system has refused to take reads, they are tried again.
const RING_RETRY_MS: u64 = 10;
/// After so many times in a row, a second of them, it is told.
const RING_RETRIES_UNTOLD: u32 = 100;
/// After so many, threads read instead: the system may permit to make a ring, and not to use it.
const RING_RETRIES_MAX: u32 = if cfg!(test) { 3 } else { 500 };

/// The point reads of one event loop that memory cannot answer. A ring of this loop reads their blocks: one system call submits
/// all that a turn of the loop asks for, and each read resumes once its block is there.
///
/// A read runs to its end even if nobody waits for it any more.
pub(super) struct Reads {
    state: RefCell<ReadQueue>,
    /// Where a read goes on that needs more than a block.
    on_pool: Rc<PoolReads>,
    counters: Arc<ReadCounters>,
}

#[derive(Default)]
struct ReadQueue {
    /// Not under way yet.
    queue: VecDeque<(FilePart, Reader)>,
    driver: Option<Waker>,
    /// The ring was given up: threads do all reads.
    is_given_up: bool,
}

/// A point read, and where its answer goes.
struct Reader {
    read: Box<PendingRead>,
    answer: Rc<OneShot<Read>>,
}

impl Reads {
    /// Starts to read by `ring` for as long as the event loop runs. Called within its runtime.
    pub(super) fn start(
        ring: Box<dyn ReadRing>,
        on_pool: Rc<PoolReads>,
        counters: Arc<ReadCounters>,
        supervisor: &Supervisor,
    ) -> io::Result<Rc<Reads>> {
        let descriptor = ring.descriptor().map(|descriptor| descriptor.try_clone_to_owned()).transpose()?;
        #[expect(
            deprecated,
            reason = "the other one is unsafe; an owned descriptor stays what and where it is"
        )]
        let register = |own| AsyncFd::with_interest(own, Interest::READABLE);
        let readable = descriptor.map(register).transpose()?;
        counters.rings.fetch_add(1, Ordering::Relaxed);
        let reads = Rc::new(Reads { state: RefCell::default(), on_pool, counters });
        let driver = Driver { ring, reads: Rc::clone(&reads), readers: Slab::new(), bytes: 0, readable };
        supervisor.spawn_local("reads", driver.run());
        Ok(reads)
    }

    /// Goes on with a read that memory cannot answer.
    pub(super) fn go_on(&self, read: Box<PendingRead>) -> Rc<OneShot<Read>> {
        let answer = Rc::<OneShot<Read>>::default();
        if self.state.borrow().queue.len() >= RING_QUEUE_READS_MAX {
            self.counters.refused.fetch_add(1, Ordering::Relaxed);
            answer.set(Err(queue_is_full()));
        } else {
            self.queue(Reader { read, answer: Rc::clone(&answer) });
        }
        answer
    }

    fn queue(&self, reader: Reader) {
        let mut state = self.state.borrow_mut();
        let Some(part) = reader.read.needs().filter(|_| !state.is_given_up) else {
            return self.on_pool.finish(reader.read, reader.answer);
        };
        state.queue.push_back((part, reader));
        self.counters.waiting.fetch_add(1, Ordering::Relaxed);
        if let Some(driver) = state.driver.take() {
            driver.wake();
        }
    }
}

/// The task that an event loop's ring belongs to.
struct Driver {
    // Declared before the readers, so that it is dropped first: that waits for the reads in flight.
    ring: Box<dyn ReadRing>,
    reads: Rc<Reads>,
    /// What is under way, by token.
    readers: Slab<(usize, Reader)>,
    /// What that reads together.
    bytes: usize,
    readable: Option<AsyncFd<OwnedFd>>,
}

impl Driver {
    async fn run(mut self) {
        let mut ended = Vec::new();
        loop {
            self.something_to_do().await;
            let mut failures = 0;
            while let Err(error) = self.turn(&mut ended) {
                failures += 1;
                if failures == RING_RETRIES_UNTOLD {
                    tracing::warn!(%error, "the system accepts no reads for now");
                }
                if failures == RING_RETRIES_MAX {
                    tracing::error!(%error, "the system accepts no reads by io_uring; an event loop reads by threads from now on");
                    return self.give_up();
                }
                tokio::time::sleep(Duration::from_millis(RING_RETRY_MS)).await;
            }
            if self.may_send_next() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Leaves everything to the threads. What the ring still has is read twice.
    fn give_up(mut self) {
        let mut state = self.reads.state.borrow_mut();
        state.is_given_up = true;
        let queued = std::mem::take(&mut state.queue).into_iter().map(|(_, reader)| reader);
        let readers = self.readers.drain().map(|(_, reader)| reader).chain(queued);
        drop(state);
        self.reads.counters.rings.fetch_sub(1, Ordering::Relaxed);
        for Reader { read, answer } in readers {
            self.reads.counters.waiting.fetch_sub(1, Ordering::Relaxed);
            self.reads.on_pool.finish(read, answer);
        }
    }

    /// Waits until reads are queued that may be sent off, or reads have ended. By the time this task gets its turn, those
    /// that the sockets made ready before it have had theirs, so that what they ask for goes off together.
    async fn something_to_do(&mut self) {
        poll_fn(|context| {
            let has_ended = match self.readable.as_ref().map(|readable| readable.poll_read_ready(context)) {
                Some(Poll::Ready(Ok(mut guard))) => {
                    // Before the turn looks, so that what ends after that is noticed.
                    guard.clear_ready();
                    true
                }
                _ => false,
            };
            if has_ended || self.may_send_next() {
                return Poll::Ready(());
            }
            self.reads.state.borrow_mut().driver = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Submits what is queued and resumes what has ended, until nothing more is to be submitted, or those who asked for it have
    /// as much to take.
    fn turn(&mut self, ended: &mut Vec<EndedRead>) -> io::Result<()> {
        let mut read_bytes = 0;
        loop {
            self.push();
            let turned = self.ring.turn(ended);
            for EndedRead { token, bytes } in ended.drain(..) {
                let (len, reader) = self.readers.remove(token as usize);
                self.bytes -= len;
                read_bytes += len;
                self.reads.resume(reader, bytes);
            }
            turned?;
            if read_bytes >= RING_BYTES_MAX || !self.may_send_next() {
                return Ok(());
            }
        }
    }

    fn may_send_next(&self) -> bool {
        let fits = |len| self.bytes + len <= RING_BYTES_MAX && self.readers.len() < RING_READS_MAX;
        let state = self.reads.state.borrow();
        state.queue.front().is_some_and(|(part, _)| self.readers.is_empty() || fits(part.len))
    }

    fn push(&mut self) {
        while self.may_send_next() {
            let Some((part, reader)) = self.reads.state.borrow_mut().queue.pop_front() else { return };
            self.bytes += part.len;
            let token = self.readers.insert((part.len, reader));
            self.ring.push(token as u64, part);
        }
    }
}

impl Reads {
    /// Goes on with a read whose bytes are here, or are not to be had.
    fn resume(&self, reader: Reader, bytes: io::Result<Vec<u8>>) {
        let Reader { read, answer } = reader;
        self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        if bytes.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // The disk was not asked, so it says nothing of the table.
            return self.on_pool.finish(read, answer);
        }
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        // If this read panics, the other reads of the loop must still go on: nothing else would resume them.
        let resumed = catch_unwind(AssertUnwindSafe(|| {
            #[cfg(test)]
            tests::panic_if_due();
            read.resume(bytes)
        }));
        match resumed.map(|resumed| resumed.map_err(|error| read_error(&error))) {
            Ok(Ok(Progress::Done(cell))) => answer.set(Ok(cell)),
            Ok(Ok(Progress::Paused(read))) => self.queue(Reader { read, answer }),
            Ok(Err(error)) => answer.set(Err(error)),
            Err(_) => answer.set(Err(panicked())),
        }
    }
}

/// What the rings of all event loops have done.
#[derive(Default)]
pub(super) struct ReadCounters {
    rings: AtomicU64,
    reads: AtomicU64,
    waiting: AtomicU64,
    refused: AtomicU64,
}

impl ReadCounters {
    pub(super) fn metrics(&self) -> [Metric; 4] {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            Metric::gauge(
                "ladoga_io_uring_event_loops",
                "Event loops that read blocks by io_uring; the others leave that to I/O threads.",
                load(&self.rings),
            ),
            Metric::counter("ladoga_io_uring_reads_total", "Blocks read by io_uring.", load(&self.reads)),
            Metric::counter(
                "ladoga_io_uring_reads_refused_total",
                "Reads refused because too many waited for io_uring.",
                load(&self.refused),
            ),
            Metric::gauge(
                "ladoga_io_uring_reads_waiting",
                "Reads queued for io_uring or in progress there.",
                load(&self.waiting),
            ),
        ]
    }
}

#[cfg(test)]
#[path = "reads_tests.rs"]
mod tests;
