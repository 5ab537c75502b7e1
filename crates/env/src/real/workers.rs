use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

use parking_lot::Mutex;

use crate::workers::{Turn, Worker, WorkerHandle, Workers};

/// Workers on threads of their own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Threads;

struct RunningThread {
    thread: Thread,
    end: Mutex<Option<JoinHandle<()>>>,
}

impl Workers for Threads {
    fn start(&self, name: &str, mut worker: Box<dyn Worker>) -> io::Result<Arc<dyn WorkerHandle>> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                match worker.turn() {
                    Turn::Again => {}
                    // A wake-up that came in the turn ends these at once.
                    Turn::Wait => wait_for_work(None),
                    Turn::WaitFor(duration) => wait_for_work(Some(duration)),
                    Turn::Over => return,
                }
            }
        })?;
        Ok(Arc::new(RunningThread { thread: thread.thread().clone(), end: Mutex::new(Some(thread)) }))
    }
}

/// Profiles of waits know by this name that a thread has nothing to do.
#[inline(never)]
fn wait_for_work(at_most: Option<Duration>) {
    match at_most {
        None => thread::park(),
        Some(duration) => thread::park_timeout(duration),
    }
    // With nothing after them these calls would be jumps, and this function on no stack.
    black_box(());
}

impl WorkerHandle for RunningThread {
    fn wake(&self) {
        self.thread.unpark();
    }

    fn join(&self) -> bool {
        let end = self.end.lock().take();
        end.is_none_or(|thread| thread.join().is_ok())
    }
}
