//! A busy function is found by its name, whichever way the samples are taken.

#[path = "../../../tests/support/skip.rs"]
#[expect(dead_code, clippy::disallowed_methods, reason = "a list of its own, beside what is tested")]
mod skip;

use std::hint::black_box;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ladoga_profiler::{FRAME_POINTERS, Format, Kind, Mechanism, Options, Profile, ProfileError, Profiler};

/// Tests of one file share the process: it has one CPU profile at a time, and what else it does is in that one.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How much CPU time the busy thread takes, however long that is.
const BUSY_NS: u64 = 1_000_000_000;

#[inline(never)]
fn counts_very_busily() -> u64 {
    let mut sum = 0u64;
    for value in 0..1_000_000u64 {
        sum = black_box(sum.wrapping_mul(31).wrapping_add(value));
    }
    sum
}

/// Returns the CPU time that the kernel counted for it, in nanoseconds.
#[inline(never)]
fn calls_the_busy_one() -> u64 {
    loop {
        black_box(counts_very_busily());
        let counted = std::fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel's figures");
        let cpu_ns = counted.split(' ').next().expect("CPU time").parse().expect("a number");
        if cpu_ns >= BUSY_NS {
            return cpu_ns;
        }
    }
}

/// How often a profile is taken that others on the machine may have disturbed.
const TAKEN_MAX: usize = 4;

/// A profile that has what is to be expected of one on a machine that is not too busy, or the last one.
fn undisturbed(mechanism: Mechanism) -> Result<(Profile, u64), ProfileError> {
    let mut taken = profile(mechanism);
    for _ in 1..TAKEN_MAX {
        let Ok((profile, cpu_ns)) = &taken else { break };
        let (busy, total) = (profile.weight_of("counts_very_busily"), profile.total_weight());
        // (Threads are found some times a second.)
        if busy > cpu_ns * 6 / 10 && busy * 10 > total * 8 {
            break;
        }
        taken = self::profile(mechanism);
    }
    taken
}

/// A profile, and the CPU time of its busy thread.
fn profile(mechanism: Mechanism) -> Result<(Profile, u64), ProfileError> {
    let options = Options { frequency_hz: 499, mechanism, ..Options::default() };
    let session = Profiler::start(Kind::Cpu, options)?;
    let busy = std::thread::Builder::new().name("busy-bee".to_owned());
    let cpu_ns = busy.spawn(calls_the_busy_one).expect("a thread").join().expect("the busy thread");
    Ok((session.finish()?, cpu_ns))
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
    assert!(busy < cpu_ns * 21 / 20, "{busy} of {cpu_ns}");
    assert!(busy > cpu_ns * 6 / 10, "{busy} of {cpu_ns}");
    let last = profile.samples.last().expect("a sample").at_ns;
    assert!(last > profile.duration_ns / 2 && last < profile.duration_ns * 11 / 10, "{last}");
}

#[test]
fn the_kernel_finds_it() {
    let _alone = alone();
    match undisturbed(Mechanism::PerfEvents) {
        Ok(profile) => {
            assert_busy(&profile);
            let notes = &profile.0.notes;
            assert!(notes.iter().any(|note| note.contains("kernel")), "{notes:?}");
        }
        Err(ProfileError::Unavailable { reason, .. }) => skip::skip(&reason),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_process_finds_it_itself() {
    let _alone = alone();
    assert_busy(&undisturbed(Mechanism::InProcess).expect("a profile"));
}

#[test]
fn every_format_has_the_function() {
    let _alone = alone();
    let (profile, _) = profile(Mechanism::Auto).expect("a profile");
    for format in [Format::Svg, Format::Html, Format::Folded, Format::Heatmap] {
        let text = String::from_utf8(profile.render(format).expect("rendered")).expect("text");
        assert!(text.contains("counts_very_busily"), "{format}");
    }
    assert_eq!(profile.render(Format::Pprof).expect("rendered")[..2], [0x1f, 0x8b]);
}

#[test]
fn one_at_a_time() {
    let _alone = alone();
    let first = Profiler::start(Kind::Cpu, Options::default()).expect("the first");
    let second = Profiler::start(Kind::Cpu, Options::default());
    assert!(matches!(second, Err(ProfileError::Busy { kind: Kind::Cpu })));
    drop(first);
    Profiler::start(Kind::Cpu, Options::default()).expect("after the first").finish().expect("a profile");
}

#[test]
fn options_have_bounds() {
    for frequency_hz in [0, 98, 1001] {
        let _alone = alone();
        let result = Profiler::start(Kind::Cpu, Options { frequency_hz, ..Options::default() });
        assert!(matches!(result, Err(ProfileError::BadOption { .. })), "{frequency_hz}");
    }
}

#[test]
fn a_cancelled_profile_ends_at_once_and_is_none() {
    let _alone = alone();
    let (canceller, cancelled) = std::sync::mpsc::channel();
    let claim = Profiler::claim(Kind::Cpu).expect("nobody else");
    let taking = std::thread::spawn(move || {
        let duration = Duration::from_hours(1);
        claim.record(Options::default(), duration, &cancelled, Ok).map(|profile| profile.is_none())
    });
    drop(canceller);
    assert!(matches!(taking.join(), Ok(Ok(true))));
    drop(Profiler::claim(Kind::Cpu).expect("the claim was given back"));
}
