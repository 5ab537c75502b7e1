use std::sync::Arc;

use ladoga_model::{Stamp, Version};
use ladoga_service::Error;

use crate::versions::VersionClock;

/// How a node gives its own writes their versions, and lets them in.
///
/// Protocol of a write: `stamp admit`, then the write; what was admitted is dropped once the write is applied or has failed.
pub trait Admission: Clone + 'static {
    /// Held while a write is under way.
    type Admitted: 'static;

    /// The version of a write that happens now.
    fn stamp(&self) -> Stamp;

    /// Waits until a write with this stamp may be applied.
    fn admit(&self, stamp: Stamp) -> impl Future<Output = Result<Self::Admitted, Error>>;
}

/// Nothing keeps a node on its own from a write.
impl Admission for Arc<VersionClock> {
    type Admitted = ();

    fn stamp(&self) -> Stamp {
        Stamp::new(Version { timestamp: self.next(), node: 0 })
    }

    async fn admit(&self, _: Stamp) -> Result<(), Error> {
        Ok(())
    }
}
