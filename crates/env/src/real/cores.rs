use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::cpu_times::parse_thread;

/// Between two looks. What a request can wait until the second one is a few times that.
const LOOK: Duration = Duration::from_millis(1);
/// Who has not been looked at for so long may have waited at any time since: that says nothing about now.
const STALE: Duration = Duration::from_millis(20);
/// The part of the time between two looks that a thread waits for a core if it is one of two that share one.
const WAIT_SHARE: u64 = 4;

/// The threads of this process that serve requests.
static SERVING: Mutex<Serving> = Mutex::new(Serving { threads: Vec::new(), looked_ns: 0 });

struct Serving {
    threads: Vec<Thread>,
    /// When it was last looked whether one of them waits.
    looked_ns: u64,
}

struct Thread {
    id: Pid,
    /// What the system says of its times. Once the thread has ended that cannot be read, whoever has its number then.
    times: File,
    waited_ns: u64,
}

impl Thread {
    /// How long it has waited for a core since the last call; `None` if it has ended.
    fn waited(&mut self) -> Option<u64> {
        let mut bytes = [0; 128];
        let count = self.times.read_at(&mut bytes, 0).ok()?;
        let waited_ns = parse_thread(str::from_utf8(&bytes[..count]).ok()?)?.wait_ns;
        Some(waited_ns.saturating_sub(std::mem::replace(&mut self.waited_ns, waited_ns)))
    }
}

/// The calling thread serves requests from now on.
pub(super) fn serve_first() {
    #[expect(clippy::disallowed_methods, reason = "no part of a store")]
    let times = File::open("/proc/thread-self/schedstat");
    // Of a system that does not tell, nothing is known, and nobody makes way.
    if let Ok(times) = times {
        SERVING.lock().threads.push(Thread { id: gettid(), times, waited_ns: 0 });
    }
}

/// If a thread that serves waits for a core, it gets the one on which the caller runs.
///
/// To be called by threads of the policy `SCHED_IDLE`, as often as they like. The scheduler does not do this: two threads that
/// share a core and never sleep are not placed anew for up to a second, even if the other cores run nothing but that policy.
pub(super) fn make_way(now_ns: u64) {
    // If another thread has it, that one looks just now.
    if let Some(mut serving) = SERVING.try_lock()
        && let Some(thread) = serving.longest_waiting(now_ns)
    {
        drop(serving);
        // It may have ended, or may not run here.
        _ = move_here(thread);
    }
}

impl Serving {
    /// The thread that waits for a core, if the last look is long enough ago; of several the one that has waited longest.
    fn longest_waiting(&mut self, now_ns: u64) -> Option<Pid> {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        if since_ns < LOOK.as_nanos() as u64 {
            return None;
        }
        self.looked_ns = now_ns;
        let (mut longest_ns, mut waiting) = (0, None);
        self.threads.retain_mut(|thread| {
            let Some(waited_ns) = thread.waited() else { return false };
            if waited_ns > longest_ns && is_waiting(waited_ns, since_ns) {
                (longest_ns, waiting) = (waited_ns, Some(thread.id));
            }
            true
        });
        waiting
    }
}

/// Whether one who has waited for so long within `since_ns` waits because of others that have its core.
const fn is_waiting(waited_ns: u64, since_ns: u64) -> bool {
    since_ns < STALE.as_nanos() as u64 && waited_ns >= since_ns / WAIT_SHARE
}

/// Moves a thread to the core of the caller, if it may run there. It is bound to it until the caller, which it has just driven from
/// there, runs again.
fn move_here(thread: Pid) -> io::Result<()> {
    let allowed = sched_getaffinity(Some(thread))?;
    let core = sched_getcpu();
    if core >= CpuSet::MAX_CPU || !allowed.is_set(core) || allowed.count() < 2 {
        return Ok(());
    }
    let mut here = CpuSet::new();
    here.set(core);
    sched_setaffinity(Some(thread), &here)?;
    Ok(sched_setaffinity(Some(thread), &allowed)?)
}

#[cfg(test)]
mod tests {
    use super::super::RealClock;
    use super::*;
    use crate::Clock;
    use std::sync::mpsc::channel;
    use std::thread;

    const MS: u64 = 1_000_000;

    #[test]
    fn waiting_is_a_part_of_a_short_time() {
        assert!(is_waiting(MS / 4, MS) && is_waiting(MS, MS) && is_waiting(4 * MS, 2 * MS));
        assert!(!is_waiting(MS / 5, MS), "everybody waits a little");
        assert!(!is_waiting(20 * MS, 20 * MS), "some time ago");
    }

    #[test]
    fn a_thread_is_known_until_it_ends_and_may_still_run_where_it_might() {
        let (registered, on_registered) = channel();
        let (end, on_end) = channel::<()>();
        let serving = thread::spawn(move || {
            serve_first();
            registered.send(gettid()).unwrap();
            _ = on_end.recv();
        });
        let id = on_registered.recv().unwrap();
        let is_known = || SERVING.lock().threads.iter().any(|thread| thread.id == id);
        assert!(is_known());
        let before = sched_getaffinity(Some(id)).unwrap();
        move_here(id).unwrap();
        assert_eq!(sched_getaffinity(Some(id)).unwrap(), before);
        drop(end);
        serving.join().unwrap();
        // The system may take a moment to forget it.
        while is_known() {
            make_way(RealClock::new().monotonic_ns());
            thread::yield_now();
        }
        assert!(move_here(id).is_err());
    }
}
