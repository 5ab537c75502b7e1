//! One comparison per claim about speed: this store beside its reference, in one run.
//!
//! | module | is |
//! | --- | --- |
//! | [`comparisons`] | the claims, P1 to P15 |
//! | [`references`] | the servers and programs on either side |
//! | [`storage`] | the storage engines on either side |
//! | [`load`] | load on a server: the lab's generator with requests of our own |
//! | [`fill`], [`client`] | writing every record, reading some or all back |
//! | [`report`] | tables, ratios, JSON lines |
//! | [`page`] | one page of all results |
//! | [`readme`] | the figures of README.md |
//! | [`turns`] | two builds of the node, before and after a change |
//! | [`process`] | child processes and what the kernel knows about them |
//! | [`ending`] | ends them when this program is told to end |
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures from outside, with the system's own clock and files"
)]

mod arguments;
mod client;
mod comparisons;
mod context;
mod dataset;
mod ending;
mod files;
mod fill;
mod load;
mod machine;
mod page;
mod process;
mod random;
mod readme;
mod references;
mod report;
mod scale;
mod scratch;
mod stop;
mod storage;
mod turns;
mod versions;

use std::process::ExitCode;
use std::time::Instant;

use arguments::{Arguments, USAGE};
use comparisons::{ALL, Comparison};
use context::Context;
use rustix::process::{Resource, Rlimit};
use stop::{Outcome, Stop};

/// What the node allocates with, so that the engines that run in this process do too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(reason) => {
            eprint!("ladoga-bench: {reason}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match arguments.comparison.as_str() {
        "help" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        "page" => return exit_code(page::run(&arguments)),
        "readme" => return exit_code(readme::run(&arguments)),
        _ => {}
    }
    if let Err(stop) = ending::end_children_on_signal() {
        return exit_code(Err(stop));
    }
    if arguments.comparison == "turns" {
        return exit_code(turns::run(&arguments));
    }
    let chosen: Vec<&Comparison> = match arguments.comparison.as_str() {
        "list" => {
            for comparison in &ALL {
                println!("{:<4} {}", comparison.name, comparison.claim);
            }
            return ExitCode::SUCCESS;
        }
        "all" | "smoke" => ALL.iter().collect(),
        "storage" => ALL.iter().filter(|comparison| matches!(comparison.name, "p4" | "p5")).collect(),
        name => ALL.iter().filter(|comparison| comparison.name == name).collect(),
    };
    if chosen.is_empty() {
        eprint!("ladoga-bench: there is no comparison `{}`\n\n{USAGE}", arguments.comparison);
        return ExitCode::from(2);
    }
    exit_code(run(&arguments, &chosen))
}

fn exit_code(outcome: Outcome<bool>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(stop) => {
            eprintln!("ladoga-bench: {stop}");
            ExitCode::FAILURE
        }
    }
}

/// Runs one after the other; one that fails does not keep the others from running. False if one failed.
fn run(arguments: &Arguments, chosen: &[&Comparison]) -> Outcome<bool> {
    let smoke = arguments.comparison == "smoke";
    if cfg!(debug_assertions) && !smoke {
        return stop::failed("this binary is not optimised: use `cargo run --release`");
    }
    raise_file_limit();
    let context = Context::new(arguments, smoke)?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for comparison in chosen {
        println!("\n## {}: {}", comparison.name.to_uppercase(), comparison.claim);
        let started = Instant::now();
        let outcome = (comparison.run)(&context);
        println!("{} took {:.1} s", comparison.name, started.elapsed().as_secs_f64());
        match outcome {
            Ok(()) => passed += 1,
            Err(stop) => {
                println!("{}: {stop}", comparison.name);
                context.results.note_stop(comparison.name, &stop)?;
                match stop {
                    Stop::Skipped(_) => skipped += 1,
                    Stop::Failed(_) => failed += 1,
                }
            }
        }
    }
    println!("comparisons: {passed} run, {failed} failed, {skipped} skipped");
    if matches!(arguments.comparison.as_str(), "all" | "smoke") {
        page::write_for(context.results.path(), smoke)?;
        if smoke && arguments.only.is_none() {
            page::check_names(context.results.path())?;
        }
    }
    Ok(failed == 0)
}

/// A thousand connections need more descriptors than a shell usually gives; servers inherit the limit.
fn raise_file_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // If the system refuses, a comparison that needs more reports it.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
