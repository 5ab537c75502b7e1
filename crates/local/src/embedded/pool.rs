use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker, ready};

use ladoga_env::{Turn, Worker, WorkerHandle, Workers};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::commit::Inbox;
use super::panicked;
use crate::store::{Later, Metric, StoreError};

/// Threads that may wait for the disk: how many reads it has to choose from at a time.
const IO_THREADS_MAX: u64 = 16;
/// With little memory there are fewer of them: one that reads of a range has blocks with long values, of 256 KiB each, and the
/// allocator keeps as much for each.
const IO_THREADS_MIN: u64 = 4;
const IO_THREAD_SHARE_BYTES: u64 = 4 << 20;
/// Jobs that may wait for a thread.
const IO_QUEUE_JOBS_MAX: usize = 1024;

type Job = Box<dyn FnOnce() + Send>;

/// Threads that do what may wait for the disk, so that no event loop does.
pub(super) struct Pool {
    shared: Arc<PoolShared>,
    workers: Vec<Arc<dyn WorkerHandle>>,
}

#[derive(Default)]
struct PoolShared {
    queue: Mutex<Queue>,
    /// In the order of their bits; once they are started.
    workers: OnceLock<Vec<Arc<dyn WorkerHandle>>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    done: u64,
    refused: u64,
    closed: bool,
    /// Those who wait for a job, by their bits.
    idle: u32,
}

const _: () = assert!(IO_THREADS_MAX <= u32::BITS as u64);

/// One thread of the pool.
struct IoWorker {
    shared: Arc<PoolShared>,
    bit: u32,
}

/// Wakes a task of an event loop through the inbox of the loop, with one system call for many answers.
struct InboxWaker {
    inbox: Arc<Inbox>,
    task: Waker,
}

impl Wake for InboxWaker {
    fn wake(self: Arc<Self>) {
        self.inbox.wake(self.task.clone());
    }
}

/// The answer to a job that was still queued when the pool closed.
fn closed() -> StoreError {
    StoreError::Unreadable { reason: "the store was closed before it could be read".to_owned() }
}

/// The answer to a job that has no place in the queue.
pub(super) fn queue_is_full() -> StoreError {
    StoreError::OverCapacity { bound: "the queue of disk reads is full" }
}

impl Pool {
    /// As many threads as go with a memory budget.
    pub(super) fn start(workers: &dyn Workers, memory_bytes: u64) -> io::Result<Pool> {
        let threads = (memory_bytes / IO_THREAD_SHARE_BYTES).clamp(IO_THREADS_MIN, IO_THREADS_MAX);
        // Dropped, it ends the threads that there are.
        let mut pool = Pool { shared: Arc::default(), workers: Vec::with_capacity(threads as usize) };
        for index in 0..threads {
            let worker = IoWorker { shared: Arc::clone(&pool.shared), bit: 1 << index };
            pool.workers.push(workers.start(&format!("io-{index}"), Box::new(worker))?);
        }
        pool.shared.workers.get_or_init(|| pool.workers.clone());
        Ok(pool)
    }

    /// Does `job` on a thread that may wait, and delivers the answer through `inbox`.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        inbox: &Arc<Inbox>,
        job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Later<Result<T, StoreError>> {
        let (answered, mut answer) = oneshot::channel();
        let job = Box::new(move || {
            let done = catch_unwind(AssertUnwindSafe(job)).unwrap_or_else(|_| Err(panicked()));
            // If nobody waits any more, the answer is not needed.
            let _ = answered.send(done);
        });
        if let Err(error) = self.shared.push(job) {
            return Box::pin(std::future::ready(Err(error)));
        }
        let inbox = Arc::clone(inbox);
        Box::pin(poll_fn(move |context| {
            let task = context.waker().clone();
            let waker = Waker::from(Arc::new(InboxWaker { inbox: Arc::clone(&inbox), task }));
            let answer = ready!(Pin::new(&mut answer).poll(&mut Context::from_waker(&waker)));
            // A job is dropped undone with the pool only.
            Poll::Ready(answer.unwrap_or_else(|_| Err(closed())))
        }))
    }

    /// Does `job`, which says itself what came of it, on a thread that may wait; drops it at once if there is no place for it in the
    /// queue. It may not panic.
    pub(super) fn do_or_drop(&self, job: impl FnOnce() + Send + 'static) {
        let _ = self.shared.push(Box::new(job));
    }

    /// Counts a job that its event loop has no place for.
    pub(super) fn count_refused(&self) {
        self.shared.queue.lock().refused += 1;
    }

    pub(super) fn metrics(&self) -> [Metric; 3] {
        let queue = self.shared.queue.lock();
        [
            Metric::counter("ladoga_io_jobs_total", "Jobs done by I/O threads.", queue.done),
            Metric::counter(
                "ladoga_io_jobs_refused_total",
                "Jobs for I/O threads refused because too many were queued.",
                queue.refused,
            ),
            Metric::gauge(
                "ladoga_io_jobs_queued",
                "Jobs that wait for an I/O thread.",
                queue.jobs.len() as u64,
            ),
        ]
    }

    /// Finishes the queued jobs, and ends the threads.
    pub(super) fn close(&self) {
        self.shared.queue.lock().closed = true;
        self.workers.iter().for_each(|worker| worker.wake());
        for worker in &self.workers {
            if !worker.join() {
                tracing::error!("an I/O thread panicked");
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
    }
}

impl PoolShared {
    fn push(&self, job: Job) -> Result<(), StoreError> {
        let mut queue = self.queue.lock();
        if queue.closed || queue.jobs.len() >= IO_QUEUE_JOBS_MAX {
            queue.refused += 1;
            return Err(queue_is_full());
        }
        queue.jobs.push_back(job);
        let first = queue.idle.trailing_zeros();
        queue.idle &= queue.idle.wrapping_sub(1);
        drop(queue);
        if let Some(worker) = self.workers.get().and_then(|workers| workers.get(first as usize)) {
            worker.wake();
        }
        Ok(())
    }
}

impl Worker for IoWorker {
    /// Does a job.
    fn turn(&mut self) -> Turn {
        let mut queue = self.shared.queue.lock();
        queue.idle &= !self.bit;
        if let Some(job) = queue.jobs.pop_front() {
            queue.done += 1;
            drop(queue);
            job();
            Turn::Again
        } else if queue.closed {
            Turn::Over
        } else {
            queue.idle |= self.bit;
            Turn::Wait
        }
    }
}

/// The pool that runs jobs which may wait for the disk, and the inbox by which their answers come back.
#[derive(Clone)]
pub(super) struct DiskHandle {
    pub(super) pool: Arc<Pool>,
    pub(super) inbox: Arc<Inbox>,
}

impl DiskHandle {
    pub(super) fn submit<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Later<Result<T, StoreError>> {
        self.pool.submit(&self.inbox, job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_env::real::Threads;
    use std::sync::mpsc;

    fn pool() -> Pool {
        Pool::start(&Threads, 1 << 30).expect("threads")
    }

    fn wait<T>(later: Later<T>) -> T {
        let mut later = later;
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(answer) = later.as_mut().poll(&mut context) {
                return answer;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_answer_comes_even_from_a_panic() {
        let (pool, inbox) = (pool(), Arc::new(Inbox::default()));
        assert_eq!(wait(pool.submit(&inbox, || Ok(7))), Ok(7));
        let panicked = wait(pool.submit::<()>(&inbox, || panic!("on purpose")));
        assert!(matches!(panicked, Err(StoreError::Unreadable { .. })));
        assert_eq!(wait(pool.submit(&inbox, || Ok(8))), Ok(8));
    }

    #[test]
    fn a_full_queue_refuses_at_once_and_what_is_queued_is_done() {
        let (pool, inbox) = (pool(), Arc::new(Inbox::default()));
        let (release, held) = mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let mut answers = Vec::new();
        let refused = loop {
            let held = Arc::clone(&held);
            let mut answer = pool.submit(&inbox, move || {
                let _ = held.lock().recv();
                Ok(())
            });
            let mut context = Context::from_waker(Waker::noop());
            match answer.as_mut().poll(&mut context) {
                Poll::Ready(refused) => break refused,
                Poll::Pending => answers.push(answer),
            }
        };
        assert!(matches!(refused, Err(StoreError::OverCapacity { .. })));
        assert!(answers.len() >= IO_QUEUE_JOBS_MAX);
        drop(release);
        pool.close();
        assert!(answers.into_iter().all(|answer| wait(answer).is_ok()));
    }
}
