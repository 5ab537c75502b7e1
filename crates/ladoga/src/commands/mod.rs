//! What each command does.

mod backup;
mod batch;
mod certs;
mod changes;
mod check;
mod cluster;
mod copy;
mod data_directory;
#[cfg(feature = "cassandra")]
mod door;
mod entity;
mod export;
mod import;
mod install;
mod life;
mod lines;
mod notify;
mod output;
mod patience;
mod profile;
mod range;
mod record;
mod record_lines;
mod repository;
mod restore;
mod serve;
mod status;
mod tally;
mod target;
mod telemetry;
mod token;

pub(crate) use backup::backup;
pub(crate) use batch::batch;
pub(crate) use certs::certs;
pub(crate) use changes::changes;
pub(crate) use check::check;
pub(crate) use cluster::repair;
pub(crate) use copy::copy;
pub(crate) use entity::{delete, expire, get, increment, put};
pub(crate) use export::export;
pub(crate) use import::import;
pub(crate) use install::{completions, man};
pub(crate) use profile::profile;
pub(crate) use range::{count, range};
pub(crate) use restore::restore;
pub(crate) use serve::serve;
pub(crate) use status::status;
pub(crate) use token::token;

use std::fmt;
use std::io::{Write, stderr};
use std::process::ExitCode;

use output::{output, output_of_work};
use target::{NodeFlags, node_url};

use crate::client::{ClientError, Response};
use crate::settings::SettingError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed cannot be done.
    Usage(String),
    /// It could be, and did not work.
    Failed(String),
    /// The reader of standard output is gone, and there was nothing to do but to print: that is no failure.
    NobodyListens,
}

/// A wrong setting, as clap's own errors.
const USAGE: u8 = 2;

impl Failure {
    /// Says why, and how the process is to exit.
    pub(crate) fn tell(&self) -> ExitCode {
        match self {
            Failure::Usage(reason) => {
                complain(format_args!("ladoga: {reason}"));
                ExitCode::from(USAGE)
            }
            Failure::Failed(reason) => {
                complain(format_args!("ladoga: {reason}"));
                ExitCode::FAILURE
            }
            Failure::NobodyListens => ExitCode::SUCCESS,
        }
    }
}

/// So many of something, in words.
fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Writes a line to standard error. If that is closed or full, the exit code has to do: `eprintln!` would panic.
fn complain(line: fmt::Arguments<'_>) {
    _ = writeln!(stderr(), "{line}");
}

impl Failure {
    /// A node refuses what it was asked for.
    fn refused(response: Response) -> Failure {
        Failure::Failed(response.refusal())
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Failure {
        Failure::Usage(error.to_string())
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::NobodyListens;
        }
        Failure::Failed(error.to_string())
    }
}
