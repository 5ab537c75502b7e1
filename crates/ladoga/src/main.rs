//! A persistent key-value store that speaks plain HTTP.
//!
//! - `allocator`: where memory comes from, and when it goes back
//! - `arguments`: what can be typed; `range_arguments`: for a range; `node_arguments`: where a node is
//! - `settings`: flags, environment and file, validated
//! - `commands`: what is done
//! - `client`: HTTP, as far as the client needs it
//! - `logging`: what is told while a node runs

mod allocator;
mod arguments;
mod client;
mod commands;
mod logging;
mod node_arguments;
mod range_arguments;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

/// Version and commit, as pages and reports show them.
const BUILD: &str = env!("LADOGA_BUILD");

fn main() -> ExitCode {
    ladoga_profiler::name_program(BUILD);
    allocator::give_back_soon();
    let outcome = match Arguments::parse().command {
        Command::Serve(flags) => commands::serve(&flags),
        Command::Get(arguments) => commands::get(&arguments),
        Command::Put(arguments) => commands::put(&arguments),
        Command::Delete(arguments) => commands::delete(&arguments),
        Command::Increment(arguments) => commands::increment(&arguments),
        Command::Range(arguments) => commands::range(&arguments),
        Command::Count(arguments) => commands::count(&arguments),
        Command::Status(node) => commands::status(&node),
        Command::Repair(node) => commands::repair(&node),
        Command::Bench(arguments) => return ladoga_lab::bench(&arguments),
        Command::Profile(arguments) => commands::profile(&arguments),
        Command::Lab(arguments) => return ladoga_lab::lab(&arguments),
        Command::Check(arguments) => commands::check(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
