//! What each command does.

mod batch;
mod certs;
mod changes;
mod check;
mod cluster;
#[cfg(feature = "cassandra")]
mod door;
mod entity;
mod install;
mod life;
mod lines;
mod notify;
mod profile;
mod range;
mod serve;
mod tally;
mod token;
mod transfer;

pub(crate) use batch::batch;
pub(crate) use certs::certs;
pub(crate) use changes::changes;
pub(crate) use check::check;
pub(crate) use cluster::{repair, status};
pub(crate) use entity::{delete, expire, get, increment, put};
pub(crate) use install::{completions, man};
pub(crate) use profile::profile;
pub(crate) use range::{count, range};
pub(crate) use serve::serve;
pub(crate) use token::token;
pub(crate) use transfer::{export, import};

use std::fmt;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::ExitCode;

use ladoga_tls::client::{Identity, Trust, Unusable};

use crate::arguments::NodeArguments;
use crate::client::{Bearer, ClientError, ClientTls, Scheme, Url};
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
    let text = &node.url;
    let wrong = || format!("--url is '{text}', expected the URL of a node, such as http://127.0.0.1:8080");
    let url = Url::parse(text).ok_or_else(|| Failure::Usage(wrong()))?;
    let tls = client_tls(node, &url)?;
    Ok(Url { bearer: bearer(node.token_file.as_deref())?, tls, ..url })
}

fn client_tls(node: &NodeArguments, url: &Url) -> Result<Option<ClientTls>, Failure> {
    if url.scheme == Scheme::Http {
        return Ok(None);
    }
    let trust = match &node.cacert {
        _ if node.insecure_skip_verify => Trust::Anybody,
        Some(path) => Trust::File(path.clone()),
        None => Trust::System,
    };
    let identity =
        node.client_cert.as_ref().zip(node.client_key.as_ref()).map(|(cert, key)| Identity::read(cert, key));
    let tls = identity.transpose().and_then(|identity| ClientTls::new(&url.host, &trust, identity.as_ref()));
    tls.map(Some).map_err(|why| match why {
        Unusable::NoAuthorities(_) => {
            Failure::Usage(format!("{why}. Give --cacert FILE with the one of the node"))
        }
        why => Failure::Usage(why.to_string()),
    })
}

/// The variable in which a client has its token. There is no flag for it: everybody on a machine can read those.
const TOKEN_VARIABLE: &str = "LADOGA_TOKEN";

fn bearer(file: Option<&Path>) -> Result<Option<Bearer>, Failure> {
    if let Some(path) = file {
        let text = std::fs::read_to_string(path);
        let path = path.display();
        let wrong = |why: String| Failure::Usage(format!("--token-file is '{path}', expected {why}"));
        let text = text.map_err(|error| wrong(format!("a file that can be read: {error}")))?;
        let expected = "a file with one token in it, as `ladoga token create` prints it";
        return Bearer::parse(&text).map(Some).ok_or_else(|| wrong(expected.to_owned()));
    }
    let Some(text) = std::env::var_os(TOKEN_VARIABLE) else { return Ok(None) };
    let expected = "a token, as `ladoga token create` prints it";
    let parsed = text.to_str().and_then(Bearer::parse);
    // What it is stays unsaid.
    parsed
        .map(Some)
        .ok_or_else(|| Failure::Usage(format!("{TOKEN_VARIABLE} has no token in it, expected {expected}")))
}
