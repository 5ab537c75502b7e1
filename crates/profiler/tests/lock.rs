//! Time spent waiting for a lock is found at its call site.

#[path = "../../../tests/support/skip.rs"]
#[expect(dead_code, clippy::disallowed_methods, reason = "a list of its own, beside what is tested")]
mod skip;

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use ladoga_profiler::{Kind, Mechanism, Options, Profile, ProfileError, Profiler};

/// Tests of one file share the process, and a process has one lock profile at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// How long the lock is held each time. In real time: what the profiler measures is what is tested.
const HELD: Duration = Duration::from_millis(100);
/// A thread is found within a tenth of a second, or later if the core is busy; the lock is held much longer than that in all.
const TIMES: usize = 24;

/// Answers how long it took, in nanoseconds.
#[inline(never)]
#[expect(clippy::disallowed_methods, reason = "what was measured is compared with what the profiler found")]
fn waits_for_the_lock(lock: &Mutex<u64>) -> u64 {
    let started = std::time::Instant::now();
    *lock.lock().expect("not poisoned") += 1;
    started.elapsed().as_nanos() as u64
}

/// Holds the lock some times while another thread wants it. Answers how long that one waited each time.
fn contend() -> (Result<Profile, ProfileError>, Vec<u64>) {
    let lock = Mutex::new(0);
    std::thread::scope(|scope| {
        let session = Profiler::start(Kind::Lock, Options::default());
        let (go, turns) = channel();
        let (done, ends) = channel();
        let waiter = std::thread::Builder::new().name("waiter".to_owned());
        let lock = &lock;
        let waiter = waiter.spawn_scoped(scope, move || {
            let mut waited = Vec::new();
            while turns.recv().is_ok() {
                waited.push(waits_for_the_lock(lock));
                done.send(()).expect("somebody who listens");
            }
            waited
        });
        let waiter = waiter.expect("a thread");
        for _ in 0..TIMES {
            let held = lock.lock().expect("not poisoned");
            go.send(()).expect("a waiter");
            std::thread::sleep(HELD);
            drop(held);
            ends.recv().expect("a waiter that got the lock");
        }
        drop(go);
        let waited = waiter.join().expect("no panic");
        (session.and_then(ladoga_profiler::Session::finish), waited)
    })
}

#[test]
fn the_kernel_finds_every_wait() {
    let guard = ONE_AT_A_TIME.lock().expect("not poisoned");
    let (profile, waited) = contend();
    drop(guard);
    let profile = match profile {
        Ok(profile) => profile,
        Err(ProfileError::Unavailable { reason, .. }) => return skip::skip(&reason),
        Err(error) => panic!("{error}"),
    };
    let found = profile.weight_of("waits_for_the_lock");
    let all: u64 = waited.iter().sum();
    // The thread may be found only when it has waited for some times.
    let late: u64 = waited.iter().skip(TIMES / 2).sum();
    assert!(found >= late * 9 / 10 && found <= all * 11 / 10, "{found} of {waited:?}\n{}", profile.folded());
}

#[test]
fn without_the_kernel_there_is_no_profile() {
    let options = Options { mechanism: Mechanism::InProcess, ..Options::default() };
    let _guard = ONE_AT_A_TIME.lock().expect("not poisoned");
    let refused = Profiler::start(Kind::Lock, options);
    assert!(matches!(refused, Err(ProfileError::Unavailable { kind: Kind::Lock, .. })), "{refused:?}");
}
