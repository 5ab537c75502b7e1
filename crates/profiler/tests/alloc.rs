//! Allocations are attributed to their callers, and add up to what was asked for.

use std::alloc::System;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::Duration;

use ladoga_profiler::{Format, Kind, Options, Profile, ProfileError, Profiler, ProfilingAllocator};

#[global_allocator]
static ALLOCATOR: ProfilingAllocator<System> = ProfilingAllocator::new(System);

/// Tests of one file share the process, and a process has one allocation profile at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[inline(never)]
fn allocates_small(count: usize) {
    for _ in 0..count {
        drop(black_box(Vec::<u8>::with_capacity(black_box(256))));
    }
}

#[inline(never)]
fn allocates_large(count: usize) {
    for _ in 0..count {
        drop(black_box(Vec::<u8>::with_capacity(black_box(1 << 20))));
    }
}

fn share_within(profile: &Profile, function: &str, bytes: u64, percent: u64) {
    let found = profile.weight_of(function);
    let off = found.abs_diff(bytes) * 100 / bytes;
    assert!(off <= percent, "{function}: {found} instead of {bytes}\n{}", profile.folded());
}

#[test]
fn bytes_are_found_where_they_were_asked_for() {
    let _guard = ONE_AT_A_TIME.lock().expect("not poisoned");
    let options = Options { alloc_interval_bytes: 64 * 1024, ..Options::default() };
    let session = Profiler::start(Kind::Alloc, options.clone()).expect("a session");
    assert!(matches!(Profiler::start(Kind::Alloc, options), Err(ProfileError::Busy { kind: Kind::Alloc })));
    for _ in 0..20 {
        allocates_small(20_000);
        allocates_large(10);
        // Lets the collector keep up: this test allocates more than a program does. Its progress cannot be read; if it is late,
        // samples are dropped, and `dropped` below shows it.
        std::thread::sleep(Duration::from_millis(25));
    }
    let profile = session.finish().expect("a profile");
    // 1,600 samples: a standard deviation of 2.5 %.
    share_within(&profile, "allocates_small", 20 * 20_000 * 256, 15);
    share_within(&profile, "allocates_large", (20 * 10) << 20, 5);
    assert_eq!(profile.dropped, 0);
    let count: u64 = profile.samples.iter().map(|sample| sample.count).sum();
    assert!(count.abs_diff(400_000) < 80_000, "{count}");
    let leaves_own = |sample: &ladoga_profiler::Sample| {
        let leaf = profile.stacks.frames(sample.stack).next().expect("a frame");
        leaf.function.contains("ladoga_profiler::")
    };
    assert!(!profile.samples.iter().any(leaves_own), "{}", profile.folded());
}

/// Looking up the symbols of a CPU profile allocates megabytes, and so does its page. An allocation profile that was taken
/// meanwhile had them.
#[test]
fn the_work_for_another_profile_is_in_none() {
    let _guard = ONE_AT_A_TIME.lock().expect("not poisoned");
    let options = Options { alloc_interval_bytes: 1 << 10, ..Options::default() };
    let session = Profiler::start(Kind::Alloc, options).expect("a session");
    let (_running, cancelled) = channel();
    let claim = Profiler::claim(Kind::Cpu).expect("a claim");
    let rendered = claim.record(Options::default(), Duration::from_millis(20), &cancelled, |profile| {
        profile.render(Format::Heatmap)
    });
    assert!(rendered.is_ok_and(|page| page.is_some_and(|page| !page.is_empty())));
    allocates_small(100);
    let profile = session.finish().expect("a profile");
    for function in ["Claim::record", "Profile::render"] {
        assert_eq!(profile.weight_of(function), 0, "{function}: {}", profile.folded());
    }
    assert_ne!(profile.weight_of("allocates_small"), 0, "the thread is the program's again");
}

#[test]
fn a_recorded_profile_has_the_allocations_of_the_program() {
    let _guard = ONE_AT_A_TIME.lock().expect("not poisoned");
    let (running, cancelled) = channel();
    let thread = std::thread::spawn(move || {
        let claim = Profiler::claim(Kind::Alloc).expect("a claim");
        let options = Options { alloc_interval_bytes: 1 << 10, ..Options::default() };
        claim.record(options, Duration::from_millis(200), &cancelled, Ok)
    });
    while !thread.is_finished() {
        allocates_small(100);
        std::thread::yield_now();
    }
    drop(running);
    let profile = thread.join().expect("no panic").expect("the allocator is installed").expect("a profile");
    assert_ne!(profile.weight_of("allocates_small"), 0, "{}", profile.folded());
}

#[test]
fn a_profile_does_not_end_the_countdown_of_an_earlier_one() {
    let _guard = ONE_AT_A_TIME.lock().expect("not poisoned");
    let profile = |alloc_interval_bytes| {
        let options = Options { alloc_interval_bytes, ..Options::default() };
        let session = Profiler::start(Kind::Alloc, options).expect("a session");
        allocates_small(64);
        session.finish().expect("a profile")
    };
    assert_ne!(profile(1 << 10).total_weight(), 0);
    // 16 KiB: one in 65,000 such profiles has a sample.
    let rare = profile(1 << 30);
    assert_eq!(rare.total_weight(), 0, "{}", rare.folded());
}
