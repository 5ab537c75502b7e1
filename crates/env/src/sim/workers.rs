use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};
use tokio::time::timeout;

use crate::workers::{Turn, Worker, WorkerHandle, Workers};

/// Turns after which a worker that is waited for, and does not end, is dropped.
const LAST_TURNS_MAX: usize = 10_000;

/// Workers as tasks of the set in which they are started: one takes a turn at a time, in an order that is always the same.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tasks;

struct RunningTask {
    /// None once it has ended.
    worker: Mutex<Option<Box<dyn Worker>>>,
    woken: Notify,
}

/// What is dropped with the task, when the process ends in which it ran.
struct Process(Arc<RunningTask>);

impl Drop for Process {
    fn drop(&mut self) {
        let worker = self.0.worker.lock().take();
        drop(worker);
    }
}

impl Workers for Tasks {
    fn start(&self, _name: &str, worker: Box<dyn Worker>) -> io::Result<Arc<dyn WorkerHandle>> {
        let running = Arc::new(RunningTask { worker: Mutex::new(Some(worker)), woken: Notify::new() });
        let process = Process(Arc::clone(&running));
        spawn_local(async move {
            let Process(running) = &process;
            loop {
                match running.turn() {
                    Turn::Again => yield_now().await,
                    Turn::Wait => running.woken.notified().await,
                    Turn::WaitFor(duration) => _ = timeout(duration, running.woken.notified()).await,
                    Turn::Over => return,
                }
            }
        });
        Ok(running)
    }
}

impl RunningTask {
    fn turn(&self) -> Turn {
        self.worker.lock().as_mut().map_or(Turn::Over, |worker| worker.turn())
    }
}

impl WorkerHandle for RunningTask {
    fn wake(&self) {
        self.woken.notify_one();
    }

    fn join(&self) -> bool {
        // There is no other thread to do it; and it may be within a turn of this very worker.
        let Some(mut worker) = self.worker.try_lock() else { return true };
        let is_over = |worker: &mut Box<dyn Worker>| (0..LAST_TURNS_MAX).any(|_| worker.turn() == Turn::Over);
        let ended = worker.as_mut().is_none_or(is_over);
        *worker = None;
        ended
    }
}
