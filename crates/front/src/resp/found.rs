use std::rc::Rc;

use bytes::Bytes;
use ladoga_model::{Ttl, Version};
use ladoga_resp::Reply;
use ladoga_service::LargeValue;

use super::failed::Failed;
use super::request_room::RoomPart;
use super::served::Served;

/// What is stored under a key.
pub(super) struct Found {
    pub(super) version: Version,
    /// In milliseconds since 1970; 0 if it does not expire.
    pub(super) expires_at_ms: u64,
    pub(super) bytes: u64,
    /// Empty if it was not asked for.
    pub(super) value: Bytes,
    /// The right to hold a large one.
    pub(super) room: Option<Rc<RoomPart>>,
}

impl Found {
    /// The value as a reply, which keeps the right to hold it.
    pub(super) fn reply(&self) -> Served {
        let reply = Reply::Bulk(self.value.clone());
        match &self.room {
            Some(room) => Served::Held(reply, Rc::clone(room)),
            None => Served::Reply(reply),
        }
    }
}

/// What becomes of a key.
pub(super) enum Effect {
    Nothing,
    Put(Bytes, NewLifetime),
    /// It stays as it is, for so long.
    Expire(NewLifetime),
    Delete,
}

/// For how long a value lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NewLifetime {
    Forever,
    /// As long as the one before it.
    Kept,
    For(Ttl),
}

impl NewLifetime {
    /// The time to live of a value that takes the place of one that expires then; 0 if that never does.
    pub(super) fn ttl(self, before_ms: u64) -> Option<Ttl> {
        match self {
            NewLifetime::Forever => None,
            NewLifetime::For(ttl) => Some(ttl),
            NewLifetime::Kept => Ttl::until_ms(before_ms),
        }
    }
}

/// The value that was found as a reply, or that there is none.
pub(super) fn reply_to(found: Option<&Found>) -> Served {
    found.map_or(Served::NULL, Found::reply)
}

/// All of a large value.
pub(super) async fn read(large: LargeValue) -> Result<Bytes, Failed> {
    let mut value = Vec::with_capacity(large.bytes as usize);
    let mut piece = large.pieces.next().await?;
    while let Some((bytes, rest)) = piece {
        value.extend_from_slice(&bytes);
        piece = rest.next().await?;
    }
    Ok(Bytes::from(value))
}
