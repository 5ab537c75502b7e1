use std::rc::Rc;

use bytes::Bytes;
use ladoga_resp::Reply;
use ladoga_service::{LargeValue, Value};

use super::failed::Failed;
use super::request_room::RoomPart;

/// What a value that is read later takes of memory until then, about.
const LATER_BYTES: u64 = 1 << 10;

/// What becomes of a request.
pub(super) enum Served {
    /// This is replied.
    Reply(Reply),
    /// So is this, which is large, with the right to hold it.
    Held(Reply, Rc<RoomPart>),
    /// So is this, which is not in memory.
    Large(LargeReply),
    /// All of these are, as one list.
    Many(Vec<Served>),
    /// Nothing is.
    Silent,
    /// It is replied already.
    Written,
    /// This is replied, and the connection ends.
    Last(Reply),
    /// Nothing was done, because a key that is watched has changed.
    WatchedKeyChanged,
}

/// A value that is too large for memory, or a part of it. It is read once it is its turn to be written: what holds the right to read
/// must not wait for others.
pub(super) struct LargeReply {
    pub(super) value: LargeValue,
    /// From where on.
    pub(super) from: u64,
    /// How much.
    pub(super) bytes: u64,
}

impl LargeReply {
    /// All of a value.
    pub(super) const fn whole(value: LargeValue) -> LargeReply {
        LargeReply { from: 0, bytes: value.bytes, value }
    }
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
            Served::Held(..) | Served::Large(_) | Served::Many(_) | Served::Silent | Served::Written => false,
        }
    }

    /// What it holds of memory until it is written, about.
    pub(super) fn held_bytes(&self) -> u64 {
        match self {
            Served::Reply(reply) | Served::Last(reply) => bytes_of(reply),
            Served::Many(all) => all.iter().map(|one| size_of::<Served>() as u64 + one.held_bytes()).sum(),
            Served::Large(_) => LATER_BYTES,
            Served::Held(..) | Served::Silent | Served::Written | Served::WatchedKeyChanged => 0,
        }
    }
}

/// How much memory a reply has, about.
fn bytes_of(reply: &Reply) -> u64 {
    let own = match reply {
        Reply::Bulk(bytes) => bytes.len() as u64,
        Reply::RawError(text) => text.len() as u64,
        Reply::Error(text) | Reply::Text(text) | Reply::Verbatim(text) => text.len() as u64,
        Reply::Array(all) | Reply::Set(all) => all.iter().map(bytes_of).sum(),
        Reply::Map(pairs) => pairs.iter().map(|(name, value)| bytes_of(name) + bytes_of(value)).sum(),
        Reply::Simple(_) | Reply::Integer(_) | Reply::Null | Reply::NullArray => 0,
    };
    size_of::<Reply>() as u64 + own
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
