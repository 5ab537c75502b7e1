//! Running cargo from a task.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::workspace::Workspace;
use crate::{Outcome, TaskResult};

/// `cargo ARGUMENTS…` in the root of the workspace. Packages beside the workspace build into its target directory, so one cache
/// serves all.
pub(crate) fn command(workspace: &Workspace, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(arguments).current_dir(workspace.root()).env("CARGO_TARGET_DIR", target_dir(workspace));
    command
}

/// The simulation, optimized and with all assertions; arguments go to it.
pub(crate) fn sim(workspace: &Workspace) -> Command {
    command(workspace, &["run", "--quiet", "--profile", "sim", "--package", "ladoga-sim", "--"])
}

/// Runs the command with its output on ours; the error names the command line.
pub(crate) fn run(command: &mut Command) -> TaskResult {
    let status = command.status().map_err(|error| format!("cannot start {}: {error}", line(command)))?;
    if status.success() { Ok(Outcome::Passed) } else { Err(format!("{} ended with {status}", line(command))) }
}

/// What the command prints; its errors and its progress are on ours.
pub(crate) fn stdout(command: &mut Command) -> Result<String, String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cannot start {}: {error}", line(command)))?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", line(command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{} printed no text: {error}", line(command)))
}

/// Whether cargo knows this subcommand here.
pub(crate) fn has_subcommand(workspace: &Workspace, name: &str) -> bool {
    command(workspace, &[name, "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

pub(crate) fn target_dir(workspace: &Workspace) -> PathBuf {
    let chosen = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    workspace.root().join(chosen) // An absolute path replaces the root.
}

fn line(command: &Command) -> String {
    let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
    format!("`cargo {}`", arguments.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_names_its_line() {
        let workspace = Workspace::here();
        let mut command = command(&workspace, &["no-such-subcommand"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let reason = run(&mut command).expect_err("there is no such subcommand");
        assert!(reason.contains("`cargo no-such-subcommand` ended with"), "{reason}");
        assert!(!has_subcommand(&workspace, "no-such-subcommand"));
        assert!(has_subcommand(&workspace, "fmt"));
    }
}
