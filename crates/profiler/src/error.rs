//! Why there is no profile.

use crate::kind::Kind;

/// What can go wrong between asking for a profile and reading it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// A profile of this kind is being taken; they would disturb each other.
    #[error("a {kind} profile is already being taken: wait until it ends")]
    Busy {
        /// The kind that was asked for.
        kind: Kind,
    },
    /// An option is outside of its bounds.
    #[error("{option} is {found}, expected {expected}")]
    BadOption {
        /// The option's name.
        option: &'static str,
        /// What was given.
        found: String,
        /// What is possible.
        expected: String,
    },
    /// This process cannot take a profile of the kind.
    #[error("no {kind} profile can be taken: {reason}")]
    Unavailable {
        /// The kind that was asked for.
        kind: Kind,
        /// What would have to change.
        reason: String,
    },
    /// The system refused a call.
    #[error("{action}: {source}")]
    System {
        /// What was tried.
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
    /// The thread that collects samples ended early.
    #[error("the thread that collects samples panicked; see the log")]
    CollectorLost,
    /// No rendering has this name or file ending.
    #[error("`{found}` is not a known format; expected one of: {expected}")]
    UnknownFormat {
        /// What was given.
        found: String,
        /// All names.
        expected: String,
    },
    /// Stacks in text form that are none.
    #[error("line {line} of the folded stacks is no `frame;frame count`: `{found}`")]
    BadFolded {
        /// Counted from 1.
        line: usize,
        /// The line.
        found: String,
    },
    /// A renderer failed.
    #[error("rendering {what}: {reason}")]
    Render {
        /// What was being written.
        what: &'static str,
        /// The library's reason.
        reason: String,
    },
}
