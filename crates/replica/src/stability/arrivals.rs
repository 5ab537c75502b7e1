use std::sync::Arc;

use ladoga_cluster::NodeId;
use ladoga_local::store::Arrivals;

use super::cluster_clock::ClusterClock;
use super::state::Stability;

/// What those who follow the changes of this node have to know of the cells that may still arrive.
pub(crate) struct ClusterArrivals {
    pub(crate) cluster: u64,
    pub(crate) own: NodeId,
    pub(crate) stability: Arc<Stability>,
    pub(crate) versions: Arc<ClusterClock>,
}

impl Arrivals for ClusterArrivals {
    fn cluster(&self) -> u64 {
        self.cluster
    }

    fn directory(&self) -> u64 {
        self.stability.incarnations(&[self.own])[0].0
    }

    fn settled_before(&self) -> u64 {
        self.stability.synced_before()
    }

    fn newest(&self) -> u64 {
        self.versions.last()
    }

    fn time_ms(&self) -> u64 {
        self.versions.expiry_time_ms()
    }
}
