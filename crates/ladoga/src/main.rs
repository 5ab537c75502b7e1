//! A persistent key-value store that speaks plain HTTP.
//!
//! - `allocator`: the allocator, and when it returns memory to the system
//! - `arguments`: the command line; `serve_flags`: of a node that runs; `access_flags`: of who may use it; `tls_flags`: of TLS;
//!   `otlp_flags`: of traces; `cassandra_arguments`: of a node without a store of its own; `node_arguments`: the URL of a node; `status_arguments`: of how one
//!   does; `range_arguments`: of a range; `changes_arguments`: of changes; `write_arguments`: what writes may ask for;
//!   `batch_arguments`: of many operations or records; `copy_arguments`: of two nodes; `backup_arguments`: of backups;
//!   `token_arguments`: of tokens; `certs_arguments`: of certificates; `install_arguments`: of what is installed beside the binary;
//!   `value_parsers`: keys and numbers in any of them
//! - `settings`: flags, environment and file, validated
//! - `tokens`: who may use a node; `reload`: files that it reads anew
//! - `commands`: what each command does
//! - `client`: HTTP, as far as the client needs it
//! - `logging`: what a node logs
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic if nobody reads: `complain` does not"
)]

mod access_flags;
mod allocator;
mod arguments;
mod backup_arguments;
mod batch_arguments;
mod cassandra_arguments;
mod certs_arguments;
mod changes_arguments;
mod client;
mod commands;
mod copy_arguments;
mod install_arguments;
mod logging;
mod node_arguments;
mod otlp_flags;
mod range_arguments;
mod reload;
mod serve_flags;
mod settings;
mod status_arguments;
mod tls_flags;
mod token_arguments;
mod tokens;
mod value_parsers;
mod write_arguments;

use std::process::ExitCode;

use arguments::{Arguments, Command};

/// Version and commit, as pages and reports show them.
const BUILD: &str = env!("LADOGA_BUILD");

fn main() -> ExitCode {
    ladoga_profiler::name_program(BUILD);
    allocator::give_back_soon();
    let outcome = match Arguments::read().command {
        Command::Serve(flags) => commands::serve(&flags),
        Command::Get(arguments) => commands::get(&arguments),
        Command::Put(arguments) => commands::put(&arguments),
        Command::Delete(arguments) => commands::delete(&arguments),
        Command::Increment(arguments) => commands::increment(&arguments),
        Command::Expire(arguments) => commands::expire(&arguments),
        Command::Range(arguments) => commands::range(&arguments),
        Command::Changes(arguments) => commands::changes(&arguments),
        Command::Count(arguments) => commands::count(&arguments),
        Command::Batch(arguments) => commands::batch(&arguments),
        Command::Export(arguments) => commands::export(&arguments),
        Command::Import(arguments) => commands::import(&arguments),
        Command::Copy(arguments) => commands::copy(&arguments),
        Command::Status(arguments) => commands::status(&arguments),
        Command::Repair(node) => commands::repair(&node),
        Command::Bench(arguments) => return ladoga_lab::bench(&arguments),
        Command::Profile(arguments) => commands::profile(&arguments),
        Command::Lab(arguments) => return ladoga_lab::lab(&arguments),
        Command::Token(arguments) => commands::token(&arguments.command),
        Command::Certs(arguments) => commands::certs(&arguments.command),
        Command::Check(arguments) => commands::check(&arguments),
        Command::Backup(arguments) => commands::backup(&arguments.command),
        Command::Restore(arguments) => commands::restore(&arguments),
        Command::Completions(arguments) => commands::completions(&arguments),
        Command::Man(arguments) => commands::man(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.tell(),
    }
}
