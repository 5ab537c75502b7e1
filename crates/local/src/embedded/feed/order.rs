use std::sync::Arc;

use crate::store::{Arrivals, CellOrder};

/// In which order the changes of a store are told.
pub(super) enum FeedOrder {
    /// Of a node on its own: in that of their versions, which is the one in which they are committed.
    Versions(Arc<dyn CellOrder>),
    /// Of a replica: in the one in which they arrive.
    Arrival {
        /// What is known of those that may still come.
        arrivals: Arc<dyn Arrivals>,
        /// Names the places of this process. Not zero, which names none.
        ring: u64,
    },
}
