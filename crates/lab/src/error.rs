use std::io;
use std::path::PathBuf;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// The command line asks for something that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Names file and line, as Lua does.
    #[error("{0}")]
    Script(String),
    #[error("unable to resolve {place}: {source}")]
    Resolve { place: String, source: io::Error },
    #[error("unable to connect to {place}: {source}")]
    Connect { place: String, source: io::Error },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is not a report of ladoga: {reason}", path.display())]
    BadReport { path: PathBuf, reason: String },
    /// The node that was to be measured.
    #[error("the node {what}{}", tail(log))]
    Node { what: String, log: String },
    #[error("cannot {what}: {source}")]
    System { what: &'static str, source: io::Error },
    #[error("a thread of the load generator failed unexpectedly")]
    ThreadLost,
    /// What a thread found was taken from it, because it did not end in time.
    #[error("the run was aborted")]
    GivenUp,
}

impl LabError {
    /// 2 is what the person who typed the command can mend; 1 everything else.
    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Script(_) | Self::Read { .. } | Self::BadReport { .. } => 2,
            Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Node { .. }
            | Self::Write { .. }
            | Self::System { .. }
            | Self::ThreadLost
            | Self::GivenUp => 1,
        }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}

/// The last lines of a log, if there are any.
fn tail(log: &str) -> String {
    const LINES_MAX: usize = 10;
    let lines: Vec<&str> = log.lines().rev().take(LINES_MAX).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("; it said:\n{}", lines.into_iter().rev().collect::<Vec<_>>().join("\n"))
}

pub(crate) type Outcome<T> = Result<T, LabError>;
