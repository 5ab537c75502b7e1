use ladoga_resp::Reply;
use ladoga_runtime::OverCapacity;
use ladoga_service::{Error, StoreError};

use super::transaction_room::{NoRoom, TooLarge};

/// So much of what a client said is repeated to it.
pub(super) const REPEATED_BYTES_MAX: usize = 128;

/// Why a command does not do what it is told.
#[derive(Debug)]
pub(super) enum Failed {
    /// This is answered.
    Told(Reply),
    /// The store says why not.
    Service(Error),
    /// It belongs to a transaction that takes too much memory.
    TooLarge(TooLarge),
    /// A key that was watched has changed.
    WatchedKeyChanged,
}

impl Failed {
    /// Something that a client said is none of what it could have said.
    pub(super) fn of_word(words: &str, found: &[u8]) -> Failed {
        Failed::Told(Reply::error(format_args!("{words} '{}'", shown(found))))
    }

    /// `ERR` and these words.
    pub(super) fn err(words: &str) -> Failed {
        Failed::Told(Reply::error(words))
    }

    pub(super) fn syntax() -> Failed {
        Failed::err("syntax error")
    }

    pub(super) fn no_integer() -> Failed {
        Failed::err("value is not an integer or out of range")
    }

    pub(super) fn value_too_large() -> Failed {
        Failed::err("string exceeds maximum allowed size (proto-max-bulk-len)")
    }

    pub(super) fn expire_time(command: &str) -> Failed {
        Failed::Told(Reply::error(format_args!("invalid expire time in '{command}' command")))
    }

    pub(super) fn into_reply(self) -> Reply {
        match self {
            Failed::Told(reply) => reply,
            Failed::Service(error) => told(&error),
            Failed::TooLarge(error) => Reply::error(error),
            Failed::WatchedKeyChanged => Reply::error(
                "a watched key was changed while EXEC ran; this command was not carried out, or not all of it",
            ),
        }
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::Service(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Failed {
        Failed::Service(Error::Store(error))
    }
}

impl From<OverCapacity> for Failed {
    fn from(full: OverCapacity) -> Failed {
        Failed::Service(Error::Store(StoreError::OverCapacity { bound: full.bound }))
    }
}

impl From<NoRoom> for Failed {
    fn from(none: NoRoom) -> Failed {
        match none {
            NoRoom::Now(full) => full.into(),
            NoRoom::Ever(error) => Failed::TooLarge(error),
        }
    }
}

/// As much of what a client said as is repeated to it.
pub(super) fn shown(found: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(&found[..found.len().min(REPEATED_BYTES_MAX)])
}

/// The one place where errors of the service become replies. The words in capital letters are those by which clients of Redis know
/// what to do.
fn told(error: &Error) -> Reply {
    let kind = match error {
        Error::NotANumber { .. } => return Failed::no_integer().into_reply(),
        Error::Overflow { .. } => return Reply::error("increment or decrement would overflow"),
        Error::Store(StoreError::NoRoom { .. } | StoreError::Failed { .. }) => "MISCONF",
        Error::Opening => "LOADING",
        Error::Contended(_) | Error::Store(StoreError::Fenced(_)) => "TRYAGAIN",
        Error::Store(
            StoreError::Unreachable { .. } | StoreError::TooFewReplicas(_) | StoreError::RangeBroken { .. },
        )
        | Error::TooFewReplicas(_)
        | Error::Undecided
        | Error::RangeIncomplete { .. }
        | Error::Overtaken
        | Error::TimeUnknown { .. }
        | Error::ClocksApart { .. }
        | Error::Starting { .. } => "NOREPLICAS",
        _ => "ERR",
    };
    Reply::Error(format!("{kind} {error}"))
}
