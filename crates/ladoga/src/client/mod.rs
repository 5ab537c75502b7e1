//! HTTP/1.1 as far as a client of a node needs it, blocking, with one connection for each request (`kept`: one for many). `throttled`: who
//! has used its rate.

mod base64;
mod bearer;
mod connection;
mod dial;
mod exchange;
mod kept;
mod refusal;
mod response;
mod throttled;
mod tls;
mod url;

pub(crate) use base64::from_base64;
pub(crate) use bearer::Bearer;
pub(crate) use connection::Request;
pub(crate) use exchange::exchange;
pub(crate) use kept::KeptConnection;
pub(crate) use response::{NDJSON, Response, TEXT};
pub(crate) use tls::ClientTls;
pub(crate) use url::{Scheme, Url, percent_encoded};

use std::io;
use std::time::Duration;

use ladoga_tls::client::words::is_of_tls;

/// An answer that cannot be read. A server says only now, after the handshake, that it does not want this client.
fn unreadable(url: &Url, error: io::Error) -> ClientError {
    let url = url.clone();
    match error.kind() {
        _ if is_of_tls(&error) => ClientError::Unreachable { url, error },
        io::ErrorKind::InvalidData => ClientError::NotHttp { url, reason: error.to_string() },
        _ => ClientError::Broken { url, error },
    }
}

/// A node that sends or takes nothing for so long is gone: it has given up before whatever it was asked for, and shows that a range goes
/// on.
const SILENCE_MAX: Duration = Duration::from_mins(1);

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Why a node could not be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// It is not there.
    #[error("cannot reach {url}: {error}")]
    Unreachable { url: Url, error: io::Error },
    /// The connection broke.
    #[error("the connection to {url} broke: {error}")]
    Broken { url: Url, error: io::Error },
    /// It is there, and says nothing.
    #[error("{url} sent nothing for {} s", .patience.as_secs_f64())]
    Silent { url: Url, patience: Duration },
    /// It is something else.
    #[error("{url} does not speak HTTP: {reason}")]
    NotHttp { url: Url, reason: String },
    /// It speaks HTTP, and sends what no node sends.
    #[error("no Ladoga node answers at {url}: found {found}, expected {expected}")]
    NotANode { url: Url, found: String, expected: &'static str },
    /// It ended its answer too early.
    #[error("{url} cut its answer off in the middle of a line")]
    Cut { url: Url },
}

impl ClientError {
    /// The same of a node that was waited for no longer than that.
    fn within(self, patience: Option<Duration>) -> ClientError {
        match (self, patience) {
            (ClientError::Broken { url, error }, Some(patience)) if is_late(&error) => {
                ClientError::Silent { url, patience }
            }
            (error, _) => error,
        }
    }
}
