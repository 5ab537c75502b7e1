use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Work beside the event loops, in turns that may wait for the disk and for nothing else.
pub trait Worker: Send {
    /// Does the work that is due now, or a part of it.
    fn turn(&mut self) -> Turn;
}

/// What a worker does after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// There is more to do.
    Again,
    /// It waits until it is woken.
    Wait,
    /// It waits until it is woken, for at most so long.
    WaitFor(Duration),
    /// It has ended.
    Over,
}

/// How workers are started: each on a thread of its own, or, in a simulation, as a task.
pub trait Workers: Send + Sync {
    /// Starts a worker. Fails if the system has no thread for it.
    fn start(&self, name: &str, worker: Box<dyn Worker>) -> io::Result<Arc<dyn WorkerHandle>>;
}

/// A worker that was started.
pub trait WorkerHandle: Send + Sync {
    /// Lets the worker take a turn, if it waits; if it is in a turn, it takes another one after that.
    fn wake(&self);

    /// Waits until the worker has ended. Answers whether it did so without a panic; a second call answers `true`.
    fn join(&self) -> bool;
}
