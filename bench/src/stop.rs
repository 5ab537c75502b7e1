//! Why a comparison ended early.

use std::fmt;

/// Skipped because a program is missing, or failed. The text is complete in itself, for a person to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stop {
    Skipped(String),
    Failed(String),
}

pub(crate) type Outcome<T = ()> = Result<T, Stop>;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Skipped(reason) => write!(f, "skipped: {reason}"),
            Stop::Failed(reason) => write!(f, "FAILED: {reason}"),
        }
    }
}

pub(crate) fn failed<T>(reason: impl Into<String>) -> Outcome<T> {
    Err(Stop::Failed(reason.into()))
}

/// Turns any error into a failure that says what was being done.
pub(crate) trait OrFail<T> {
    fn or_fail(self, doing: impl FnOnce() -> String) -> Outcome<T>;
}

impl<T, E: fmt::Display> OrFail<T> for Result<T, E> {
    fn or_fail(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.map_err(|error| Stop::Failed(format!("{}: {error}", doing())))
    }
}

impl<T> OrFail<T> for Option<T> {
    fn or_fail(self, doing: impl FnOnce() -> String) -> Outcome<T> {
        self.ok_or_else(|| Stop::Failed(doing()))
    }
}
