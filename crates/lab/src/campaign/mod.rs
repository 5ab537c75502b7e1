//! `ladoga lab`: from an empty machine to a report.
//!
//! - `options`: the command line
//! - `check`: what it cannot ask for
//! - `stage`: the runs that it asks for
//! - `suite`: the published load tests
//! - `server`: a node of its own, or a running one
//! - `process`: whether a process that was named can be the server's
//! - `client`: single requests
//! - `sampler`: figures of the server's process during a run
//! - `sampled`: what the sampler found, until it is known when the run began and ended
//! - `disturbance`: the load of other processes during a run
//! - `profile`: profiles of the server
//! - `watched_run`: one run, with all that watches it
//! - `conduct`: one run after the other
//! - `report_file`: the report's file meanwhile
//! - `written`: what stays in the store of a running server
//! - `progress`: progress on standard error

mod check;
mod client;
mod conduct;
mod disturbance;
mod options;
mod process;
mod profile;
mod progress;
mod report_file;
mod sampled;
mod sampler;
mod server;
mod stage;
mod suite;
mod watched_run;
mod written;

pub use options::LabOptions;

use std::process::ExitCode;

use crate::compare;
use options::LabCommand;

/// Runs `ladoga lab`. Prints results on standard output; progress and errors on standard error.
///
/// Exit codes: 0; 1 if a run could not be made; 2 if the command line is wrong, or a file is not a report; 3 if all requests of
/// a run failed; 128 plus the number of the signal if it was interrupted.
pub fn lab(options: &LabOptions) -> ExitCode {
    let result = match &options.command {
        LabCommand::Run(options) => options.check().and_then(|()| conduct::run(options)),
        LabCommand::Compare(options) => {
            compare::compare([&options.before, &options.after], options.output.as_deref())
                .map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| progress::failure(&error))
}
