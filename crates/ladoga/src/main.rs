//! A persistent key-value store that speaks plain HTTP.
//!
//! - `arguments`: what can be typed
//! - `settings`: flags, environment and file, validated
//! - `commands`: what is done
//! - `client`: HTTP, as far as the client needs it
//! - `logging`: what is told while a node runs

mod arguments;
mod client;
mod commands;
mod logging;
mod settings;

use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};

/// Measured against the system's and against jemalloc: see the note on allocators in `bench/`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(flags) => commands::serve(&flags),
        Command::Get(arguments) => commands::get(&arguments),
        Command::Put(arguments) => commands::put(&arguments),
        Command::Delete(arguments) => commands::delete(&arguments),
        Command::Range(arguments) => commands::range(&arguments),
        Command::Status(node) => commands::status(&node),
        Command::Check(arguments) => commands::check(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
