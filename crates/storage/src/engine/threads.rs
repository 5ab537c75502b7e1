use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use ladoga_env::Priority;

use super::Inner;
use super::background::{Pace, TICK};
use crate::error::Error;

/// Half of the second that `Durability::EverySecond` promises; the other half is for the sync itself.
const SYNC_INTERVAL: Duration = Duration::from_millis(500);
/// How long a flush or compaction that failed waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The engine's threads.
#[derive(Default)]
pub(super) struct Threads {
    handles: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn join(&mut self) {
        for handle in self.handles.drain(..) {
            // If it panicked, the store is poisoned already.
            let _ = handle.join();
        }
    }
}

/// How a thread is started.
pub(super) type Spawn = dyn Fn(&'static str, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

pub(super) fn spawn(name: &'static str, work: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

/// Starts the threads. If the system has no room for one, those before it are in `threads`, to be stopped.
pub(super) fn start(inner: &Arc<Inner>, threads: &mut Threads, spawn: &Spawn) -> Result<(), Error> {
    if inner.background.is_manual() {
        return Ok(());
    }
    let mut spawn = |name: &'static str, work: fn(&Inner)| {
        let inner = inner.clone();
        let work = Box::new(move || inner.work(name, work));
        threads.handles.push(spawn(name, work).map_err(Error::io("start thread", name))?);
        Ok::<(), Error>(())
    };
    spawn("ladoga-flush", flush_loop)?;
    spawn("ladoga-compact", |inner| compact_loop(inner, Pace::Patient))?;
    spawn("ladoga-hurry", |inner| compact_loop(inner, Pace::Hurried))?;
    // Whatever the durability of the store: a write may ask for another one.
    spawn("ladoga-sync", sync_loop)
}

fn flush_loop(inner: &Inner) {
    // Writers wait for a flush only once a whole memtable has filled up behind it.
    inner.env.clock.lower_thread_priority(Priority::Lower);
    let mut seen = 0;
    while !inner.background.is_stopping() {
        inner.observe_directory();
        inner.remove_old_log();
        inner.observe_space();
        inner.observe_writes();
        let worked = inner.flush_step();
        rest(inner, worked, &mut seen);
    }
}

fn compact_loop(inner: &Inner, pace: Pace) {
    inner.env.clock.lower_thread_priority(pace.priority());
    let mut seen = 0;
    while !inner.background.is_stopping() {
        let worked = inner.compact_step(pace);
        rest(inner, worked, &mut seen);
    }
}

/// Waits for more work, if there was none.
fn rest(inner: &Inner, worked: Result<bool, Error>, seen: &mut u64) {
    match worked {
        Ok(true) => {}
        Ok(false) => *seen = inner.background.wait(*seen, TICK),
        // Whoever is woken may be told that it has passed.
        Err(error) if error.may_pass() => *seen = inner.background.wait(*seen, RETRY),
        Err(_) => inner.background.pause(RETRY),
    }
}

fn sync_loop(inner: &Inner) {
    let mut due = inner.env.clock.monotonic_ns() + SYNC_INTERVAL.as_nanos() as u64;
    let mut seen = 0;
    while !inner.background.is_stopping() {
        let now = inner.env.clock.monotonic_ns();
        if now < due {
            seen = inner.background.wait(seen, Duration::from_nanos(due - now));
            continue;
        }
        due = now + SYNC_INTERVAL.as_nanos() as u64;
        if inner.sync_if_due().is_err() {
            return;
        }
    }
}

impl Inner {
    /// Poisons the store after a panic: otherwise a write would wait for flushes that do not come, or be answered and never
    /// synced.
    fn work(&self, thread: &'static str, work: fn(&Inner)) {
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.poison(&Error::Panicked { thread });
            self.background.progressed();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use ladoga_env::sim;

    use ladoga_model::Durability;

    use super::*;
    use crate::engine::Engine;
    use crate::options::Options;

    /// Those that had been started held on to the directory.
    #[test]
    fn where_one_thread_cannot_be_the_others_end_and_the_directory_is_free() {
        let (env, _disk, _clock) = sim::env(1);
        let options = Options::new(16 << 20, Durability::EverySecond);
        let open = |spawn: &Spawn| Engine::open_with(env.clone(), Path::new("/data"), options.clone(), spawn);
        for missing in ["ladoga-flush", "ladoga-compact", "ladoga-hurry", "ladoga-sync"] {
            let spawn_others = move |name, work| {
                if name == missing { Err(io::ErrorKind::WouldBlock.into()) } else { spawn(name, work) }
            };
            let error = open(&spawn_others).err().expect("a thread that is missing").to_string();
            assert!(error.starts_with(&format!("start thread {missing} failed: ")), "{error}");
            open(&spawn).expect("nobody has the directory").close().expect("a store that closes");
        }
    }
}
