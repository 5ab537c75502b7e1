use std::future::Future;

use ladoga_model::{Stamp, Version};
use ladoga_service::Error;

/// What gives its version to a cell, inside the commit.
pub type StampOfUpdate = Box<dyn FnOnce() -> Stamp + Send>;

/// How a node gives its own writes their versions, and lets them in.
///
/// Protocol of a write: `stamp admit`, then the write, then `acknowledge`; what was admitted is dropped once the write is applied
/// or has failed. If it `admits_all`, the write comes behind `stamp`, and nothing else.
pub trait Admission: Clone + Send + 'static {
    /// Held while a write is under way.
    type Admitted: 'static;

    /// The version of a write that happens now.
    fn stamp(&self) -> Stamp;

    /// What time it is, in milliseconds since 1970: values expire by that. Updates ask for it when they are decided, inside the commit.
    fn time_ms(&self) -> u64;

    /// Up to which millisecond this node has given all versions that it will ever give.
    fn given_up_to_ms(&self) -> u64;

    /// Whether every write may be applied at once, and takes effect when it is.
    fn admits_all(&self) -> bool {
        false
    }

    /// Waits until a write with this stamp may be applied.
    fn admit(&self, stamp: Stamp) -> impl Future<Output = Result<Self::Admitted, Error>>;

    /// Whether a write of this version, which is applied, took effect for all that is known. It did not if what depends on the newest
    /// cell was decided by another node, without it, before it was applied: that went over it. A node on its own decides inside the
    /// commit.
    fn acknowledge(&self, _key: &[u8], _version: Version) -> Result<(), Error> {
        Ok(())
    }

    /// What gives its version to an update of this key when it is decided, inside the commit: one that is newer than
    /// all that were given before.
    fn stamp_of_update(&self, key: &[u8]) -> Result<impl FnOnce() -> Stamp + Send + 'static, Error>;

    /// The same for updates of several keys that happen all or none; they are asked for their stamps in this order.
    fn stamps_together(&self, keys: &[&[u8]]) -> Result<Vec<StampOfUpdate>, Error> {
        let stamp_of =
            |key: &&[u8]| -> Result<StampOfUpdate, Error> { Ok(Box::new(self.stamp_of_update(key)?)) };
        keys.iter().map(stamp_of).collect()
    }
}
