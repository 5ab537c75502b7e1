//! `cargo xtask sim`: runs seeds, and prints the line that repeats one that fails.

use std::process::ExitCode;

use ladoga_sim::{Bug, Summary, run_traced};

const HELP: &str = "\
cargo xtask sim [--seeds N] [--first SEED] [--trace] [--bug NAME]

Runs a whole cluster in simulation, once for each of N seeds (default 100) from SEED on (default 0).
A seed that fails is printed with the line that repeats it; --trace prints what happens in it. --bug plants one, which
has to be found: ack-without-writing, drop-tombstones-by-time, vouch-while-rebuilding, ignore-newer-versions,
forget-copies.
The exit code is 1 where a seed failed.
";

struct Arguments {
    seeds: u64,
    first: u64,
    traced: bool,
    bug: Option<Bug>,
}

fn bug_of(name: &str) -> Result<Bug, String> {
    match name {
        "ack-without-writing" => Ok(Bug::AckWithoutWriting),
        "drop-tombstones-by-time" => Ok(Bug::DropTombstonesByTime),
        "vouch-while-rebuilding" => Ok(Bug::VouchWhileRebuilding),
        "ignore-newer-versions" => Ok(Bug::IgnoreNewerVersions),
        "forget-copies" => Ok(Bug::ForgetCopies),
        unknown => Err(format!("--bug is '{unknown}', expected one of those that --help names")),
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Arguments>, String> {
    let mut parsed = Arguments { seeds: 100, first: 0, traced: false, bug: None };
    while let Some(name) = arguments.next() {
        let mut text = || arguments.next().ok_or_else(|| format!("{name} needs a value"));
        let number =
            |text: String| text.parse().map_err(|_| format!("{name} is '{text}', expected a number"));
        match name.as_str() {
            "--seeds" => parsed.seeds = number(text()?)?,
            "--first" => parsed.first = number(text()?)?,
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
    let (mut failed, mut total) = (0, Summary::default());
    for (done, seed) in (arguments.first..).take(arguments.seeds as usize).enumerate() {
        match run_traced(seed, arguments.bug, arguments.traced) {
            Ok(summary) => add(&mut total, summary),
            Err(failure) => {
                failed += 1;
                println!("{failure}\n  cargo xtask sim --first {seed} --seeds 1 --trace");
            }
        }
        let done = done as u64 + 1;
        if done.is_multiple_of(100) || done == arguments.seeds {
            println!(
                "{done} of {} seeds, {failed} failed: {} requests succeeded, {} failed; {} faults, {} disks lost, \
                 {} messages",
                arguments.seeds,
                total.succeeded,
                total.failed,
                total.faults,
                total.disks_lost,
                total.messages
            );
        }
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn add(total: &mut Summary, summary: Summary) {
    total.succeeded += summary.succeeded;
    total.failed += summary.failed;
    total.faults += summary.faults;
    total.messages += summary.messages;
    total.disks_lost += summary.disks_lost;
    total.tombstones_dropped += summary.tombstones_dropped;
}
