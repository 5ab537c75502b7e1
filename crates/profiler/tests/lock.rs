//! Time spent waiting for a lock is found at its call site, by the kernel's switches and by marked waits.

use std::sync::Mutex;
use std::time::Duration;

use ladoga_profiler::{FRAME_POINTERS, Kind, Mechanism, Options, Profile, Profiler, waiting};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[inline(never)]
fn waits_for_the_lock(lock: &Mutex<u64>) {
    *waiting(|| lock.lock()).expect("not poisoned") += 1;
}

/// Holds the lock for 200 ms while another thread wants it.
fn contend(mechanism: Mechanism) -> Profile {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let lock = Mutex::new(0);
    std::thread::scope(|scope| {
        let options = Options { mechanism, ..Options::default() };
        let session = Profiler::start(Kind::Lock, options).expect("a session");
        let held = lock.lock().expect("not poisoned");
        std::thread::Builder::new()
            .name("waiter".to_owned())
            .spawn_scoped(scope, || {
                // Threads are found ten times a second.
                std::thread::sleep(Duration::from_millis(300));
                waits_for_the_lock(&lock);
                std::thread::sleep(Duration::from_millis(100));
            })
            .expect("a thread");
        std::thread::sleep(Duration::from_millis(500));
        drop(held);
        std::thread::sleep(Duration::from_millis(200));
        session.finish().expect("a profile")
    })
}

fn waited(profile: &Profile) -> u64 {
    let waiter = profile.threads.iter().position(|thread| thread.name == "waiter");
    let of_waiter = |sample: &&ladoga_profiler::Sample| Some(sample.thread as usize) == waiter;
    profile.samples.iter().filter(of_waiter).map(|sample| sample.weight).sum()
}

fn assert_near_200_ms(found_ns: u64, profile: &Profile) {
    assert!((120_000_000..280_000_000).contains(&found_ns), "{found_ns}\n{}", profile.folded());
}

#[test]
fn marked_waits_are_found() {
    let profile = contend(Mechanism::InProcess);
    assert_near_200_ms(waited(&profile), &profile);
    assert_near_200_ms(profile.weight_of("waits_for_the_lock"), &profile);
}

#[test]
fn the_kernel_finds_every_wait() {
    let profile = contend(Mechanism::Auto);
    if profile.notes.iter().any(|note| note.contains("cannot be followed")) {
        eprintln!("skipped: {:?}", profile.notes);
        return;
    }
    // The sleeps around the wait are idle time, and left out.
    assert_near_200_ms(waited(&profile), &profile);
    assert!(profile.weight_of("[waits: lock or condition]") > 0, "{}", profile.folded());
    if FRAME_POINTERS {
        assert_near_200_ms(profile.weight_of("waits_for_the_lock"), &profile);
    }
}
