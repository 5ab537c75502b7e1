//! The changes of a store, in an order.
//!
//! On a node on its own, while somebody follows, cells are committed in the order of their versions (`crate::store::CellOrder`). So a
//! place in the feed is a timestamp: everything up to it was told. A follower that is near the end reads the `ring`, one that is not
//! the tables: cells that are newer than its place, and no newer than the end of the ring when it began.
//!
//! At a replica, cells arrive in any order. There a place in the ring is the number of an arrival, and beside it a follower keeps up to
//! which timestamp everything was told and nothing comes any more (`crate::store::Arrivals`): from there on it reads the tables.
//!
//! - `ring`: the last changes, in memory
//! - `place`: what is to be read from where, and how far that is; `order`: what a place is
//! - `token`: a place, as clients keep it; `given`: what is on disk about the tokens that were given; `resume`: back to a place
//! - `of_replica`: what is different at a replica; `kept`: the deletions that it keeps
//! - `shared`: what all event loops and the writer of groups have in common

mod given;
mod kept;
mod of_replica;
mod order;
mod place;
mod resume;
mod ring;
mod shared;
mod token;

pub(super) use place::{Leg, Live, Place, Raced, Scanning};
pub(super) use ring::{Change, Group, told};
pub(super) use shared::{Feed, Presence};
pub use token::{fuzz as fuzz_token, text_of as token_text_of};
