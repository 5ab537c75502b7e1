use std::io::Write;

use clap::CommandFactory;

use super::{Failure, output};
use crate::arguments::Arguments;
use crate::install_arguments::{CompletionsArguments, ManArguments};

/// Prints the script by which a shell completes commands and flags.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "ladoga", &mut script);
    output().write_all(&script)?;
    Ok(())
}

/// Writes the manual, a page for each command.
#[expect(
    clippy::disallowed_methods,
    reason = "the pages are no data, and their writer goes to the files itself"
)]
pub(crate) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let failed = |error| Failure::Failed(format!("cannot write to {}: {error}", arguments.to.display()));
    std::fs::create_dir_all(&arguments.to).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), &arguments.to).map_err(failed)
}
