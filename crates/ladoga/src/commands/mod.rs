//! What each command does.

mod backup;
mod batch;
mod changes;
mod check;
mod cluster;
mod copy;
#[cfg(feature = "cassandra")]
mod door;
mod entity;
mod install;
mod life;
mod lines;
mod notify;
mod profile;
mod range;
mod record;
mod restore;
mod serve;
mod status;
mod tally;
mod token;
mod transfer;

pub(crate) use backup::backup;
pub(crate) use batch::batch;
pub(crate) use changes::changes;
pub(crate) use check::check;
pub(crate) use cluster::repair;
pub(crate) use copy::copy;
pub(crate) use entity::{delete, expire, get, increment, put};
pub(crate) use install::{completions, man};
pub(crate) use profile::profile;
pub(crate) use range::{count, range};
pub(crate) use restore::restore;
pub(crate) use serve::serve;
pub(crate) use status::status;
pub(crate) use token::token;
pub(crate) use transfer::{export, import};

use std::fmt;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::ExitCode;

use crate::arguments::NodeArguments;
use crate::client::{Bearer, ClientError, Url};
use crate::settings::SettingError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed cannot be done.
    Usage(String),
    /// It could be, and did not work.
    Failed(String),
    /// The reader of standard output is gone, which is no failure.
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

/// Writes a line to standard error. If that is closed or full, the exit code has to do: `eprintln!` would panic.
fn complain(line: fmt::Arguments<'_>) {
    _ = writeln!(stderr(), "{line}");
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

/// Where a node is, and what it is shown.
fn node_url(node: &NodeArguments) -> Result<Url, Failure> {
    ONE_NODE.url(&node.url, node.token_file.as_deref())
}

/// By what a node is named on a command line.
struct NodeFlags {
    url: &'static str,
    token_file: &'static str,
    /// The variables in which a client has its token; the first one that is set counts. There is no flag for it: everybody on a machine
    /// can read those.
    variables: &'static [&'static str],
}

const ONE_NODE: NodeFlags =
    NodeFlags { url: "--url", token_file: "--token-file", variables: &["LADOGA_TOKEN"] };

impl NodeFlags {
    /// Where the node is, and what it is shown.
    fn url(&self, text: &str, token_file: Option<&Path>) -> Result<Url, Failure> {
        let flag = self.url;
        let wrong =
            || format!("{flag} is '{text}', expected the URL of a node, such as http://127.0.0.1:8080");
        let url = Url::parse(text).ok_or_else(|| Failure::Usage(wrong()))?;
        let bearer = match token_file {
            Some(path) => Some(self.bearer_in(path)?),
            None => self.bearer_of_environment()?,
        };
        Ok(Url { bearer, ..url })
    }

    fn bearer_in(&self, path: &Path) -> Result<Bearer, Failure> {
        let (text, flag) = (std::fs::read_to_string(path), self.token_file);
        let path = path.display();
        let wrong = |why: String| Failure::Usage(format!("{flag} is '{path}', expected {why}"));
        let text = text.map_err(|error| wrong(format!("a file that can be read: {error}")))?;
        let expected = "a file with one token in it, as `ladoga token create` prints it";
        Bearer::parse(&text).ok_or_else(|| wrong(expected.to_owned()))
    }

    fn bearer_of_environment(&self) -> Result<Option<Bearer>, Failure> {
        let set = |name: &&'static str| Some((*name, std::env::var_os(name)?));
        let Some((name, text)) = self.variables.iter().find_map(set) else { return Ok(None) };
        let expected = "a token, as `ladoga token create` prints it";
        let parsed = text.to_str().and_then(Bearer::parse);
        // What it is stays unsaid.
        parsed
            .map(Some)
            .ok_or_else(|| Failure::Usage(format!("{name} has no token in it, expected {expected}")))
    }
}
