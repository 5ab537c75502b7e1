use std::rc::Rc;

/// The longest reason of a peer that is repeated: more than that, only somebody else says.
const REASON_BYTES_MAX: usize = 1 << 10;

/// Why a peer did not answer. What it answered, even a failure, is an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PeerError {
    /// No connection came about.
    #[error("cannot be reached: {0}")]
    Unreachable(Rc<str>),
    /// It is not of this cluster, or does not serve.
    #[error("{0}")]
    Refused(Rc<str>),
    /// The connection ended before the answer came.
    #[error("the connection broke: {0}")]
    Broken(Rc<str>),
    /// It is connected, but sends nothing.
    #[error("silent for {silent_ms} ms, expected an answer within {timeout_ms} ms")]
    Silent {
        /// For how long.
        silent_ms: u64,
        /// How long it may be.
        timeout_ms: u64,
    },
    /// More is waiting for it than may.
    #[error("the queue of requests to it is full ({requests} requests, {bytes} bytes)")]
    Full {
        /// How many.
        requests: usize,
        /// With how many bytes.
        bytes: usize,
    },
}

impl PeerError {
    /// The peer, which this node calls by that URL, gave this reason. It is made one line of bounded length.
    pub(crate) fn refused_by(url: &str, reason: &str) -> PeerError {
        let reason = reason.strip_prefix(url).map_or(reason, str::trim_start);
        let mut line = reason.replace(char::is_control, " ");
        if line.len() > REASON_BYTES_MAX {
            line.truncate(line.floor_char_boundary(REASON_BYTES_MAX));
            line.push('…');
        }
        PeerError::Refused(line.into())
    }

    /// Why nothing is to be had of the peer: the same each time that it happens, so that the log tells of it once.
    pub(crate) fn reason(&self) -> String {
        match self {
            PeerError::Silent { timeout_ms, .. } => format!("silent for more than {timeout_ms} ms"),
            error => error.to_string(),
        }
    }

    /// Whether the same request may work over another connection.
    pub(crate) fn is_of_the_connection(&self) -> bool {
        matches!(self, PeerError::Broken(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_a_peer_is_one_line_of_bounded_length_without_its_url() {
        let said = |reason: &str| PeerError::refused_by("http://a", reason).to_string();
        assert_eq!(said("http://a refuses http://b: why"), "refuses http://b: why");
        assert_eq!(said("http://c refuses http://b: why"), "http://c refuses http://b: why");
        assert_eq!(said("a\n\u{1b}[2Jb"), "a  [2Jb");
        let long = said(&"é".repeat(REASON_BYTES_MAX));
        assert!(long.len() <= REASON_BYTES_MAX + '…'.len_utf8() && long.ends_with("é…"), "{}", long.len());
    }
}
