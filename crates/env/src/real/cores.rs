use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

use super::cpu_times::{ThreadTimes, parse_thread};

/// Between two looks. What a request can wait until the second one is a few times that.
const LOOK: Duration = Duration::from_millis(1);
/// Who has not been looked at for so long may have waited at any time since: that says nothing about now.
const STALE: Duration = Duration::from_millis(20);
/// The part of the time between two looks that a thread waits for a core if it is one of two that share one.
const WAIT_SHARE: u64 = 4;
/// Between two looks at what the threads use: long beside a turn of an event loop, short beside the time in which a memtable gets full.
const USE_LOOK: Duration = Duration::from_millis(50);
/// Who left no core at some time does not leave one for so long: work that is half done is not to be begun anew because of a moment.
const USE_KEPT: Duration = Duration::from_secs(1);

/// The threads of this process that serve requests.
static SERVING: Mutex<Serving> = Mutex::new(Serving {
    threads: Vec::new(),
    looked_ns: 0,
    usage: Usage { cores: 0, looked_ns: 0, last_full_ns: None },
});
/// What [`Usage`] said last, for who cannot wait for the lock.
static HAS_CORE_TO_SPARE: AtomicBool = AtomicBool::new(false);

struct Serving {
    threads: Vec<Thread>,
    /// When it was last looked whether one of them waits.
    looked_ns: u64,
    usage: Usage,
}

struct Thread {
    id: Pid,
    /// What the system says of its times. Once the thread has ended that cannot be read, whoever has its number then.
    times: File,
    waited_ns: u64,
    used_ns: u64,
}

impl Thread {
    /// How long it has waited for a core since the last call; `None` if it has ended.
    fn waited(&mut self) -> Option<u64> {
        let now_ns = self.times()?.wait_ns;
        Some(now_ns.saturating_sub(std::mem::replace(&mut self.waited_ns, now_ns)))
    }

    /// How long it has been on a core since the last call; `None` if it has ended.
    fn used(&mut self) -> Option<u64> {
        let now_ns = self.times()?.cpu_ns;
        Some(now_ns.saturating_sub(std::mem::replace(&mut self.used_ns, now_ns)))
    }

    fn times(&self) -> Option<ThreadTimes> {
        let mut bytes = [0; 128];
        let count = self.times.read_at(&mut bytes, 0).ok()?;
        parse_thread(str::from_utf8(&bytes[..count]).ok()?)
    }
}

/// Whether the threads that serve leave a core to others.
struct Usage {
    /// Those that this process may use.
    cores: u64,
    looked_ns: u64,
    /// When they left none.
    last_full_ns: Option<u64>,
}

impl Usage {
    fn is_due(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.looked_ns) >= USE_LOOK.as_nanos() as u64
    }

    /// Notes what all of them have used together since the last time. Answers whether they leave a core to others: they do if what they
    /// use is at most three quarters of all cores but one. So much of a core is kept by who shares it with work of lower priority.
    fn add(&mut self, used_ns: u64, now_ns: u64) -> bool {
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.looked_ns, now_ns));
        if used_ns > elapsed_ns / 4 * 3 * self.cores.saturating_sub(1) {
            self.last_full_ns = Some(now_ns);
        }
        self.last_full_ns.is_none_or(|full_ns| now_ns.saturating_sub(full_ns) >= USE_KEPT.as_nanos() as u64)
    }
}

/// The calling thread serves requests from now on.
pub(super) fn serve_first() {
    #[expect(clippy::disallowed_methods, reason = "no part of a store")]
    let times = File::open("/proc/thread-self/schedstat");
    // Of a system that does not tell, nothing is known, and nobody makes way.
    if let Ok(times) = times {
        let cores = available_parallelism().map_or(1, |cores| cores.get() as u64);
        let mut serving = SERVING.lock();
        serving.usage.cores = cores;
        serving.threads.push(Thread { id: gettid(), times, waited_ns: 0, used_ns: 0 });
    }
}

/// Whether the threads that serve have left a core to others, for a second.
pub(super) fn has_core_to_spare(now_ns: u64) -> bool {
    // Who has the lock may have no core: nobody waits for it.
    if let Some(mut serving) = SERVING.try_lock()
        && serving.usage.is_due(now_ns)
    {
        HAS_CORE_TO_SPARE.store(serving.observe_usage(now_ns), Ordering::Relaxed);
    }
    HAS_CORE_TO_SPARE.load(Ordering::Relaxed)
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

    /// Notes what the threads have used, and answers whether they leave a core to others. Where there are none, or they cannot be looked
    /// at, that is not known.
    fn observe_usage(&mut self, now_ns: u64) -> bool {
        let mut used_ns = 0;
        self.threads.retain_mut(|thread| thread.used().inspect(|used| used_ns += used).is_some());
        self.usage.add(used_ns, now_ns) && !self.threads.is_empty()
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
    // Looked at before it moves, which can keep the caller from running for long.
    sched_setaffinity(Some(thread), &every_core())?;
    let kept = to_keep(&allowed, &sched_getaffinity(Some(thread))?);
    let mut here = CpuSet::new();
    here.set(core);
    let moved = sched_setaffinity(Some(thread), &here);
    // It is refused if the process may use none of these cores any more.
    let freed =
        sched_setaffinity(Some(thread), &kept).or_else(|_| sched_setaffinity(Some(thread), &every_core()));
    Ok(moved.and(freed)?)
}

/// What a thread is to ask for that may use these of the cores that the system leaves to the process. Those change (CPUs of a container,
/// CPUs that go offline and come back), and a thread never gets more than it has asked for: unless somebody has bound it to some of them,
/// it asks for all, and goes on to have what the process has.
fn to_keep(allowed: &CpuSet, left_to_process: &CpuSet) -> CpuSet {
    if allowed == left_to_process { every_core() } else { *allowed }
}

/// Of these, the system gives those that it leaves to the process.
fn every_core() -> CpuSet {
    let mut cores = CpuSet::new();
    (0..CpuSet::MAX_CPU).for_each(|core| cores.set(core));
    cores
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
    fn a_core_is_left_if_all_but_one_have_a_quarter_left_for_a_second() {
        let of = |cores| Usage { cores, looked_ns: 0, last_full_ns: None };
        assert!(!of(1).add(1, 100 * MS), "of one core nothing is left");
        assert!(of(2).add(75 * MS, 100 * MS) && !of(2).add(76 * MS, 100 * MS));
        assert!(of(4).add(225 * MS, 100 * MS) && !of(4).add(226 * MS, 100 * MS), "all threads together");
        let mut usage = of(2);
        assert!(!usage.is_due(50 * MS - 1) && usage.is_due(50 * MS));
        assert!(!usage.add(100 * MS, 100 * MS));
        assert!(!usage.is_due(149 * MS) && usage.is_due(150 * MS));
        assert!(!usage.add(0, 1_099 * MS) && usage.add(0, 1_100 * MS));
    }

    /// It asked for the cores that it had just then, so it never got those again that the process was without at that time.
    #[test]
    fn who_is_bound_to_no_cores_follows_those_of_the_process() {
        let of = |cores: &[usize]| {
            let mut set = CpuSet::new();
            cores.iter().for_each(|core| set.set(*core));
            set
        };
        assert_eq!(to_keep(&of(&[0, 1]), &of(&[0, 1])), every_core());
        assert_eq!(to_keep(&of(&[0, 1]), &of(&[0, 1, 2])), of(&[0, 1]), "somebody has bound it");
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
