//! `cargo xtask sim`: runs seeds, and prints the line that repeats one that fails.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_sim::{Bug, Summary, run_shipping, run_traced};

const HELP: &str = "\
cargo xtask sim [--seeds N] [--seconds N] [--minutes N] [--shipping] [--threads N] [--first SEED] [--trace] [--bug NAME]

Runs a whole cluster in simulation, once for each of N seeds (default 100) from SEED on (default 0).
--seconds begins no other seed after so long, and tells how many there were; --minutes is the same, for as many seeds as
there is time for. --shipping runs the shipping node in place of the simulation's own driver of its machines. Seeds run on all cores; --threads says on how
many instead, and --trace, which prints what happens in each, has them run on one.
A seed that fails is printed with the line that repeats it. --bug plants one, which has to be found: ack-without-writing,
drop-tombstones-by-time, vouch-while-rebuilding, ignore-newer-versions, forget-copies, trust-own-clock,
acknowledge-stale-large, ignore-regressions.
The exit code is 1 where a seed failed.
";

struct Arguments {
    seeds: u64,
    seconds_max: Option<u64>,
    threads: Option<usize>,
    first: u64,
    traced: bool,
    is_shipping: bool,
    bug: Option<Bug>,
}

fn bug_of(name: &str) -> Result<Bug, String> {
    match name {
        "ack-without-writing" => Ok(Bug::AckWithoutWriting),
        "drop-tombstones-by-time" => Ok(Bug::DropTombstonesByTime),
        "vouch-while-rebuilding" => Ok(Bug::VouchWhileRebuilding),
        "ignore-newer-versions" => Ok(Bug::IgnoreNewerVersions),
        "forget-copies" => Ok(Bug::ForgetCopies),
        "trust-own-clock" => Ok(Bug::TrustOwnClock),
        "acknowledge-stale-large" => Ok(Bug::AcknowledgeStaleLarge),
        "ignore-regressions" => Ok(Bug::IgnoreRegressions),
        unknown => Err(format!("--bug is '{unknown}', expected one of those that --help names")),
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut parsed = Arguments {
        seeds: 100,
        seconds_max: None,
        threads: None,
        first: 0,
        traced: false,
        is_shipping: false,
        bug: None,
    };
    while let Some(name) = arguments.next() {
        let mut text = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        let number =
            |text: String| text.parse().map_err(|_| format!("{name} is '{text}', expected a number"));
        match name.as_str() {
            "--seeds" => parsed.seeds = number(text()?)?,
            "--seconds" => parsed.seconds_max = Some(number(text()?)?),
            "--threads" => parsed.threads = Some(number(text()?)?.max(1) as usize),
            "--first" => parsed.first = number(text()?)?,
            "--minutes" => {
                let minutes: u64 = number(text()?)?;
                (parsed.seeds, parsed.seconds_max) = (u64::MAX, Some(minutes.saturating_mul(60)));
            }
            "--shipping" => parsed.is_shipping = true,
            "--trace" => parsed.traced = true,
            "--bug" => parsed.bug = Some(bug_of(&text()?)?),
            "--help" | "-h" => return Ok(None),
            unknown => return Err(format!("unknown argument '{unknown}'")),
        }
    }
    Ok(Some(parsed))
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(Some(arguments)) => arguments,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(reason) => {
            eprint!("ladoga-sim: {reason}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let done = Mutex::new(Done::default());
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads() {
            scope.spawn(|| work(&arguments, &next, &done));
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    if done.seeds < arguments.seeds {
        println!("{} of {} seeds in the time that there was", done.seeds, arguments.seeds);
    }
    if done.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Arguments {
    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        if self.traced { 1 } else { self.threads.unwrap_or_else(all) }
    }
}

/// What all threads have done.
#[derive(Default)]
struct Done {
    seeds: u64,
    failed: u64,
    total: Summary,
}

/// Runs seeds until there are no more, or no time.
fn work(arguments: &Arguments, next: &AtomicU64, done: &Mutex<Done>) {
    let clock = RealClock::new();
    let began_ns = clock.monotonic_ns();
    let passed = || (clock.monotonic_ns() - began_ns) / 1_000_000_000;
    let is_time_up = || arguments.seconds_max.is_some_and(|seconds_max| passed() >= seconds_max);
    while !is_time_up() {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= arguments.seeds {
            return;
        }
        let seed = arguments.first + number;
        let run = if arguments.is_shipping { run_shipping } else { run_traced };
        let ran = run(seed, arguments.bug, arguments.traced);
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.seeds += 1;
        match ran {
            Ok(summary) => add(&mut done.total, summary),
            Err(failure) => {
                done.failed += 1;
                let shipping = if arguments.is_shipping { " --shipping" } else { "" };
                println!("{failure}\n  cargo xtask sim --first {seed} --seeds 1 --trace{shipping}");
            }
        }
        if done.seeds.is_multiple_of(100) || done.seeds == arguments.seeds {
            println!("{}", line(&done, arguments.seeds));
        }
    }
}

fn line(done: &Done, seeds: u64) -> String {
    let Done { seeds: so_far, failed, total } = done;
    format!(
        "{so_far} of {seeds} seeds, {failed} failed: {} requests succeeded, {} failed; {} faults, {} disks lost, \
         {} clocks wrong, {} messages",
        total.succeeded, total.failed, total.faults, total.disks_lost, total.clocks_wrong, total.messages
    )
}

fn add(total: &mut Summary, summary: Summary) {
    total.succeeded += summary.succeeded;
    total.failed += summary.failed;
    total.faults += summary.faults;
    total.messages += summary.messages;
    total.disks_lost += summary.disks_lost;
    total.clocks_wrong += summary.clocks_wrong;
    total.tombstones_dropped += summary.tombstones_dropped;
    total.large_stored += summary.large_stored;
}
