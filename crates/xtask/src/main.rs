//! What CI runs, as ordinary code: `cargo xtask help` lists the tasks.
//!
//! Nothing here depends on another crate of the workspace, so a broken crate cannot take its own checks down.
#![expect(
    clippy::disallowed_methods,
    reason = "a development tool reads the checkout itself; env::Disk is for data"
)]

mod again;
mod cargo;
mod ci;
mod smoke;
mod test_programs;
mod test_run;
mod tidy;
mod workspace;

use std::process::ExitCode;

use workspace::Workspace;

const HELP: &str = "\
cargo xtask TASK

  tidy         file length, banned words, unsafe, arrows between crates and folders, links, licences
  ci           everything that must pass: formatting, clippy, tests, simulation, docs, tidy, deny, smokes
  test         all tests, built once and run side by side
  fuzz-smoke   every fuzz target for a moment, on stable Rust
  bench-smoke  the figures of the README, and every benchmark, tiny
  sim          whole clusters in simulation; arguments go to it (cargo xtask sim --help)
  help         this text
";

/// How a task ended when nothing was wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    Passed,
    /// What ran passed; the text names what did not run, or passed only when it ran again.
    PassedBut(String),
    /// There was nothing to run, for the reason in the text.
    Skipped(String),
}

/// The error is what a person reads, complete in itself.
type TaskResult = Result<Outcome, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let workspace = Workspace::here();
    if let [task, rest @ ..] = arguments.as_slice()
        && task == "sim"
    {
        return sim(&workspace, rest);
    }
    let [task] = arguments.as_slice() else {
        return usage_error("expected exactly one task");
    };
    let result = match task.as_str() {
        "tidy" => tidy::task(&workspace),
        "ci" => ci::task(&workspace),
        "test" => test_run::task(&workspace),
        "fuzz-smoke" => smoke::fuzz(&workspace),
        "bench-smoke" => smoke::bench(&workspace, None),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        unknown => return usage_error(&format!("unknown task `{unknown}`")),
    };
    match result {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::PassedBut(what)) => {
            println!("{task}: passed, but {what}");
            ExitCode::SUCCESS
        }
        Ok(Outcome::Skipped(reason)) => {
            println!("{task}: skipped: {reason}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("{task}: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The exit code is the simulation's own.
fn sim(workspace: &Workspace, arguments: &[String]) -> ExitCode {
    match cargo::sim(workspace).args(arguments).status() {
        Ok(status) => ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)),
        Err(error) => {
            eprintln!("sim: cannot start cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage_error(reason: &str) -> ExitCode {
    eprint!("xtask: {reason}\n\n{HELP}");
    ExitCode::from(2)
}
