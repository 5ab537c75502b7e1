//! What profiling costs: the same work with and without, in alternation.
//!
//! `cargo run --release -p ladoga-profiler --example overhead`. Three kinds of work: computing, allocating, and two threads
//! that wake each other (a context switch each time). Rounds alternate, and medians of the ratios are compared, so that a
//! machine that gets slower meanwhile counts for both sides.

use std::alloc::System;
use std::hint::black_box;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use ladoga_profiler::{FRAME_POINTERS, Kind, Mechanism, Options, Profiler, ProfilingAllocator};

#[global_allocator]
static ALLOCATOR: ProfilingAllocator<System> = ProfilingAllocator::new(System);

const ROUNDS: usize = 9;

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

fn compute() {
    let mut sum = 1u64;
    for value in 0..150_000_000u64 {
        sum = black_box(sum.wrapping_mul(31) ^ value);
    }
}

fn allocate() {
    for size in 0..6_000_000usize {
        drop(black_box(Vec::<u8>::with_capacity(black_box(16 + size % 2000))));
    }
}

/// At about 20,000 switches a second: the rate of a busy server, not of a benchmark of the scheduler.
fn switch() {
    let (to, from) = sync_channel::<()>(0);
    std::thread::scope(|scope| {
        scope.spawn(move || from.iter().for_each(|()| work_a_little()));
        for _ in 0..4000 {
            work_a_little();
            if to.send(()).is_err() {
                return;
            }
        }
        drop(to);
    });
}

fn work_a_little() {
    let mut sum = 1u64;
    for value in 0..50_000u64 {
        sum = black_box(sum.wrapping_mul(31) ^ value);
    }
}

/// CPU time of the process with all its threads, in the kernel's units of 10 ms: coarse, so it is summed over rounds.
fn cpu_ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15, counted from behind the name, which may hold anything.
    let fields = text.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

fn time(work: fn()) -> (Duration, u64) {
    let (start, ticks) = (now(), cpu_ticks());
    work();
    (start.elapsed(), cpu_ticks() - ticks)
}

struct Slowdown {
    median: f64,
    quartiles: (f64, f64),
    /// Of CPU time over all rounds: steadier than the clock while other programs run.
    cpu: f64,
}

/// The slowdown in percent.
fn compare(work: fn(), kind: Kind, options: &Options) -> Result<Slowdown, ladoga_profiler::ProfileError> {
    let (mut ratios, mut ticks) = (Vec::new(), [0, 0]);
    for round in 0..ROUNDS {
        let without_first = round % 2 == 0;
        let before = without_first.then(|| time(work));
        let session = Profiler::start(kind, options.clone())?;
        let with = time(work);
        session.finish()?;
        let without = before.unwrap_or_else(|| time(work));
        ratios.push(percent(with.0.as_secs_f64(), without.0.as_secs_f64()));
        ticks = [ticks[0] + with.1, ticks[1] + without.1];
    }
    ratios.sort_by(f64::total_cmp);
    Ok(Slowdown {
        median: ratios[ROUNDS / 2],
        quartiles: (ratios[ROUNDS / 4], ratios[ROUNDS * 3 / 4]),
        cpu: percent(ticks[0] as f64, ticks[1] as f64),
    })
}

fn percent(with: f64, without: f64) -> f64 {
    (with / without - 1.0) * 100.0
}

fn main() {
    println!(
        "frame pointers: {FRAME_POINTERS}; {ROUNDS} rounds; slowdown in %: median of time (quartiles), sum of CPU time"
    );
    let cases: [(&str, Kind, Mechanism, u32); 6] = [
        ("cpu, kernel, 99 Hz", Kind::Cpu, Mechanism::PerfEvents, 99),
        ("cpu, kernel, 499 Hz", Kind::Cpu, Mechanism::PerfEvents, 499),
        ("cpu, kernel, 1000 Hz", Kind::Cpu, Mechanism::PerfEvents, 1000),
        ("cpu, in process, 499 Hz", Kind::Cpu, Mechanism::InProcess, 499),
        ("alloc, 512 KiB", Kind::Alloc, Mechanism::Auto, 499),
        ("lock", Kind::Lock, Mechanism::Auto, 499),
    ];
    let works: [(&str, fn()); 3] = [("compute", compute), ("allocate", allocate), ("switch", switch)];
    // An argument picks cases and works by a part of their names.
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, kind, mechanism, frequency_hz) in cases {
        let options = Options { frequency_hz, mechanism, ..Options::default() };
        for (work_name, work) in works {
            if !format!("{name} {work_name}").contains(&wanted) {
                continue;
            }
            match compare(work, kind, &options) {
                Ok(Slowdown { median, quartiles: (low, high), cpu }) => {
                    println!("{name:<24} {work_name:<10} {median:>6.2} ({low:.2} to {high:.2}) cpu {cpu:.2}");
                }
                Err(error) => println!("{name:<24} {work_name:<10} {error}"),
            }
        }
    }
}
