use std::io;

use rustix::io::Errno;

use ladoga_http1::answer::Malformed;

/// Why a connection could not be made, or an answer not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConnectionError {
    #[error("{}", io::Error::from(*.0))]
    Socket(#[from] Errno),
    /// What TLS says, in words.
    #[error("{0}")]
    Tls(String),
    /// Something was still to come.
    #[error("the server closed the connection")]
    Closed,
    #[error("the server sent bytes that belong to no request")]
    Unasked,
    #[error(transparent)]
    Answer(#[from] Malformed),
}
