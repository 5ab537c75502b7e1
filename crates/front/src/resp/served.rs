use bytes::Bytes;
use ladoga_resp::Reply;
use ladoga_runtime::Permit;
use ladoga_service::{Piece, Value};

use super::failed::Failed;

/// What becomes of a request.
pub(super) enum Served {
    /// This is replied.
    Reply(Reply),
    /// So is this, of so many bytes, which are not in memory.
    Large(LargeReply),
    /// Nothing is.
    Silent,
    /// This is replied, and the connection ends.
    Last(Reply),
    /// Nothing was done, because a key that is watched has changed.
    WatchedKeyChanged,
}

/// A value that is too large for memory.
pub(super) struct LargeReply {
    pub(super) bytes: u64,
    /// As far as it has been read: what fails up to here is an error, and later breaks the connection.
    pub(super) first: Option<Piece>,
    pub(super) permit: Permit,
}

/// What serves a request comes to this.
pub(super) type CommandResult = Result<Served, Failed>;

impl Served {
    pub(super) const OK: Served = Served::Reply(Reply::OK);
    pub(super) const NULL: Served = Served::Reply(Reply::Null);

    pub(super) fn integer(number: impl TryInto<i64>) -> Served {
        Served::Reply(Reply::Integer(number.try_into().unwrap_or(i64::MAX)))
    }

    pub(super) const fn flag(is_so: bool) -> Served {
        Served::Reply(Reply::flag(is_so))
    }

    /// A value, or that there is none.
    pub(super) fn value(value: Option<Bytes>) -> Served {
        Served::Reply(value.map_or(Reply::Null, Reply::Bulk))
    }

    pub(super) fn of(result: CommandResult) -> Served {
        result.unwrap_or_else(|failed| match failed {
            Failed::WatchedKeyChanged => Served::WatchedKeyChanged,
            failed => Served::Reply(failed.into_reply()),
        })
    }

    pub(super) const fn is_error(&self) -> bool {
        match self {
            Served::Reply(reply) | Served::Last(reply) => reply.is_error(),
            Served::WatchedKeyChanged => true,
            Served::Large(_) | Served::Silent => false,
        }
    }
}

impl From<Reply> for Served {
    fn from(reply: Reply) -> Served {
        Served::Reply(reply)
    }
}

/// How long a value is.
pub(super) fn length(value: &Value) -> u64 {
    match value {
        Value::Inline(bytes) => bytes.len() as u64,
        Value::Large(large) => large.bytes,
    }
}
