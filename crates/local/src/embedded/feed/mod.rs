//! The changes of a node on its own, in the order of their versions.
//!
//! While somebody follows, cells are committed in that order (`crate::store::CellOrder`), so a place in the feed is a timestamp:
//! everything up to it was told. A follower that is near the end reads the `ring`, one that is not the tables: cells that are
//! newer than its place, and no newer than the end of the ring when it began.
//!
//! - `ring`: the last changes, in memory
//! - `place`: what is to be read from where, and how far that is
//! - `token`: a place, as clients keep it; `given`: what is on disk about the tokens that were given
//! - `shared`: what all event loops and the writer of groups have in common

mod given;
mod place;
mod ring;
mod shared;
mod token;

pub(super) use place::{Leg, Place, Scanning};
pub(super) use ring::{Change, Group, told};
pub(super) use shared::{Feed, Presence};
