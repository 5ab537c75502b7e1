//! `ladoga lab`: from nothing to a report.
//!
//! - `options`: what a person types
//! - `stage`: the runs that this asks for
//! - `suite`: the published load tests
//! - `server`: a node of its own, or one that was named
//! - `client`: single requests
//! - `sampler`: what the server's process does meanwhile
//! - `disturbance`: what the rest of the machine does meanwhile
//! - `profile`: where its CPU time goes
//! - `conduct`: one run after the other
//! - `progress`: what a person sees meanwhile

mod client;
mod conduct;
mod disturbance;
mod options;
mod profile;
mod progress;
mod sampler;
mod server;
mod stage;
mod suite;

pub(crate) use conduct::command_line;
pub use options::LabOptions;

use std::process::ExitCode;

use crate::compare;
use options::LabCommand;

/// Runs `ladoga lab`. Prints results on standard output; how it gets on, and what went wrong, on standard error.
///
/// Exit codes: 0; 1 if a run could not be made; 2 if the command line is wrong, or a file is no report; 3 if all
/// requests of a run failed; 128 and the number of the signal if it was interrupted.
pub fn lab(options: &LabOptions) -> ExitCode {
    let result = match &options.command {
        LabCommand::Run(options) => options.check().and_then(|()| conduct::run(options)),
        LabCommand::Compare(options) => {
            compare::compare([&options.before, &options.after], options.output.as_deref())
                .map(|()| ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        eprintln!("ladoga lab: {error}");
        ExitCode::from(error.exit_code())
    })
}
