//! A busy function is found by its name, whoever takes the samples.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ladoga_profiler::{FRAME_POINTERS, Format, Kind, Mechanism, Options, Profile, ProfileError, Profiler};

/// Tests of one file share the process, and a process has one CPU profile at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[inline(never)]
fn counts_very_busily(stop: &AtomicBool) -> u64 {
    let mut sum = 0u64;
    while !stop.load(Ordering::Relaxed) {
        for value in 0..10_000u64 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(value));
        }
    }
    sum
}

/// Returns the CPU time that the kernel counted for it, in nanoseconds.
#[inline(never)]
fn calls_the_busy_one(stop: &AtomicBool) -> u64 {
    black_box(counts_very_busily(stop));
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel's figures");
    counted.split(' ').next().expect("CPU time").parse().expect("a number")
}

/// A profile, and the CPU time of its busy thread.
fn profile(mechanism: Mechanism) -> Result<(Profile, u64), ProfileError> {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = std::thread::Builder::new()
            .name("busy-bee".to_owned())
            .spawn_scoped(scope, || calls_the_busy_one(&stop))
            .expect("a thread");
        let options = Options { frequency_hz: 499, mechanism, ..Options::default() };
        let (_canceller, cancelled) = std::sync::mpsc::channel();
        let claim = Profiler::claim(Kind::Cpu).expect("nobody else");
        let profile = claim.record(options, Duration::from_secs(1), &cancelled);
        stop.store(true, Ordering::Relaxed);
        let cpu_ns = busy.join().expect("the busy thread");
        Ok((profile?.expect("nobody cancelled it"), cpu_ns))
    })
}

fn assert_busy((profile, cpu_ns): &(Profile, u64)) {
    let total = profile.total_weight();
    let busy = profile.weight_of("counts_very_busily");
    assert!(!profile.samples.is_empty(), "{:?}", profile.notes);
    assert!(busy * 10 > total * 8, "{busy} of {total}\n{}", profile.folded());
    if FRAME_POINTERS {
        assert!(profile.weight_of("calls_the_busy_one") * 10 > total * 8, "{}", profile.folded());
    }
    assert!(profile.threads.iter().any(|thread| thread.name == "busy-bee"), "{:?}", profile.threads);
    // The thread runs a little before the profile and after it, where symbols are looked up.
    assert!(busy < cpu_ns * 21 / 20, "{busy} of {cpu_ns}");
    assert!(busy > cpu_ns * 6 / 10, "{busy} of {cpu_ns}");
    let last = profile.samples.last().expect("a sample").at_ns;
    assert!(last > profile.duration_ns / 2 && last < profile.duration_ns * 11 / 10, "{last}");
}

#[test]
fn the_kernel_finds_it() {
    match profile(Mechanism::PerfEvents) {
        Ok(profile) => {
            assert_busy(&profile);
            let notes = &profile.0.notes;
            assert!(notes.iter().any(|note| note.contains("kernel")), "{notes:?}");
        }
        Err(ProfileError::Unavailable { reason, .. }) => eprintln!("skipped: {reason}"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_process_finds_it_itself() {
    assert_busy(&profile(Mechanism::InProcess).expect("a profile"));
}

#[test]
fn every_format_has_the_function() {
    let (profile, _) = profile(Mechanism::Auto).expect("a profile");
    for format in [Format::Svg, Format::Html, Format::Folded, Format::Heatmap] {
        let text = String::from_utf8(profile.render(format).expect("rendered")).expect("text");
        assert!(text.contains("counts_very_busily"), "{format}");
    }
    assert_eq!(profile.render(Format::Pprof).expect("rendered")[..2], [0x1f, 0x8b]);
}

#[test]
fn one_at_a_time() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let first = Profiler::start(Kind::Cpu, Options::default()).expect("the first");
    let second = Profiler::start(Kind::Cpu, Options::default());
    assert!(matches!(second, Err(ProfileError::Busy { kind: Kind::Cpu })));
    drop(first);
    Profiler::start(Kind::Cpu, Options::default()).expect("after the first").finish().expect("a profile");
}

#[test]
fn options_have_bounds() {
    for frequency_hz in [0, 98, 1001] {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let result = Profiler::start(Kind::Cpu, Options { frequency_hz, ..Options::default() });
        assert!(matches!(result, Err(ProfileError::BadOption { .. })), "{frequency_hz}");
    }
}

#[test]
fn a_cancelled_profile_ends_at_once_and_is_none() {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (canceller, cancelled) = std::sync::mpsc::channel();
    let claim = Profiler::claim(Kind::Cpu).expect("nobody else");
    let taking = std::thread::spawn(move || {
        claim.record(Options::default(), Duration::from_hours(1), &cancelled).map(|profile| profile.is_none())
    });
    drop(canceller);
    assert!(matches!(taking.join(), Ok(Ok(true))));
    drop(Profiler::claim(Kind::Cpu).expect("the claim was given back"));
}
