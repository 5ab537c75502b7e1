use std::time::Duration;

/// How far behind others a thread goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Below the threads that requests wait for, but not by much: soon other requests will wait for this one.
    Lower,
    /// Behind everything.
    Lowest,
}

/// Time.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970; may jump, also backwards.
    fn wall_ms(&self) -> u64;

    /// The same in microseconds, as far as the clock can tell.
    fn wall_us(&self) -> u64 {
        self.wall_ms() * 1_000
    }

    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Waits on the calling thread; a simulated clock moves itself forward instead.
    fn sleep(&self, duration: Duration);

    /// Lets other threads go before the calling one, from now on; a hint, never an error.
    fn lower_thread_priority(&self, priority: Priority) {
        let _ = priority;
    }

    /// The calling thread serves requests: others [make way](Clock::make_way) for it until it ends. A hint, never an error.
    fn serve_first(&self) {}

    /// Gives the core of the calling thread to one that serves requests, if that waits for a core. For those that run at the
    /// lowest priority. It costs next to nothing if it is called often.
    fn make_way(&self) {}

    /// Whether the threads that serve requests left a core to others all through the last second; `false` if that is not known. It
    /// costs next to nothing if it is called often.
    fn has_core_to_spare(&self) -> bool {
        false
    }
}
