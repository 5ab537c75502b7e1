//! What the feed of a replica has that the one of a node on its own has not.

use std::io;

use super::order::FeedOrder;
use super::shared::Feed;
use crate::store::Arrivals;

impl Feed {
    fn arrivals(&self) -> Option<&dyn Arrivals> {
        match self.order.get()? {
            FeedOrder::Arrival { arrivals, .. } => Some(&**arrivals),
            FeedOrder::Versions(_) => None,
        }
    }

    pub(in super::super) fn is_of_replica(&self) -> bool {
        self.arrivals().is_some()
    }

    /// The cluster whose replica this is, and the name of its ring.
    pub(super) fn cluster(&self) -> Option<(u64, u64)> {
        match self.order.get()? {
            FeedOrder::Arrival { arrivals, ring } => Some((arrivals.cluster(), *ring)),
            FeedOrder::Versions(_) => None,
        }
    }

    /// Whether what is on disk about the tokens of the feed is of this directory.
    pub(super) fn is_given(&self) -> bool {
        let directory = self.arrivals().map(Arrivals::directory);
        self.given.feed().is_some_and(|feed| directory.is_none_or(|directory| directory == feed))
    }

    /// A replica keeps deletions from now on, for as long as it has this directory. May wait for the disk.
    pub(in super::super) fn keep_from_now(&self) -> io::Result<()> {
        let Some(arrivals) = self.arrivals() else { return Ok(()) };
        self.given.begin(arrivals.directory(), || self.kept.begin(self.settled()))
    }

    /// Of a replica: every cell with this timestamp or an earlier one is here, and none comes any more.
    pub(in super::super) fn settled(&self) -> u64 {
        self.arrivals().map_or(0, |arrivals| arrivals.settled_before().saturating_sub(1))
    }

    /// What time it is for values that expire.
    pub(in super::super) fn expiry_ms(&self) -> u64 {
        self.arrivals().map_or_else(|| self.wall_ms(), Arrivals::time_ms)
    }
}
