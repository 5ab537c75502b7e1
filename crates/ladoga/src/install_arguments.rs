use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

const COMPLETIONS_HELP: &str = "\
Examples:
  ladoga completions bash > /etc/bash_completion.d/ladoga
  ladoga completions zsh > \"${fpath[1]}/_ladoga\"
  ladoga completions fish > ~/.config/fish/completions/ladoga.fish

Exit codes: 0 if the script was printed; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub(crate) struct CompletionsArguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

const MAN_HELP: &str = "\
Writes ladoga.1, and ladoga-COMMAND.1 for each command.

Example:
  ladoga man --to /usr/local/share/man/man1

Exit codes: 0 if the pages were written; 1 if DIR cannot be written; 2 if the command line is wrong.";

#[derive(Debug, Args)]
#[command(after_help = MAN_HELP)]
pub(crate) struct ManArguments {
    /// Directory for the pages; created if it does not exist
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
}
