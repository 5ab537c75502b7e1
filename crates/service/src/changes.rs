use std::task::{Context, Poll};

use bytes::Bytes;
use ladoga_model::{Stamp, Value};

use crate::{KeySpan, Later, StoreError};

/// From where on changes are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Since {
    /// Those that come from now on.
    Now,
    /// First all that is stored, then those that come.
    Beginning,
    /// Behind those that were told when this token was given.
    Token(Bytes),
}

/// What a feed of changes tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Of which keys.
    pub span: KeySpan,
    /// From where on.
    pub since: Since,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangedTo<'c> {
    /// It has this value; of a large one, its length is told.
    Value(Value<&'c [u8], u64>),
    /// It is deleted.
    Nothing,
    /// Its value has expired.
    Expired,
}

/// How changes are written, one after the other.
pub trait ChangeFormat: Send + 'static {
    /// Writes a change.
    fn change(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, to: ChangedTo<'_>);
}

/// Some changes.
#[derive(Debug)]
pub struct ChangePiece {
    /// In the format that was asked for; empty if there was nothing, or nothing yet.
    pub bytes: Vec<u8>,
    /// Names what was told up to the end of this piece; none if there is no new one now.
    pub token: Option<Box<str>>,
    /// Whether there is nothing more now.
    pub is_all: bool,
}

/// A piece, and what tells the next one.
pub type Told = (ChangePiece, Box<dyn Follower>);

/// Tells the changes of some keys, one piece after the other, for as long as it is asked. The versions of a key rise.
///
/// Protocol: `(next poll_more*)*`.
pub trait Follower {
    /// What there is to be told now, as far as it fits into a piece.
    fn next(self: Box<Self>) -> Later<Result<Told, StoreError>>;

    /// Ready if there may be more to be told.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<()>;
}
