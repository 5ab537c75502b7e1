use std::cell::Cell;

use ladoga_cluster::{Failure, QuorumError, Refusal};

use super::plan::Plan;
use crate::stability::DisksLost;
use ladoga_local::store::Store;

/// What a request counts on from its beginning to its decision: that its replicas keep what they say they have, or never had.
pub(super) struct Standing {
    /// Whether this node vouched for its part, as one that has all that it acknowledged.
    has_vouched: Cell<bool>,
    began: DisksLost,
}

impl Standing {
    pub(super) fn of<S: Store>(plan: &Plan<S>, has_vouched: bool) -> Standing {
        Standing { has_vouched: Cell::new(has_vouched), began: plan.cluster().stability().lost_disks.now() }
    }

    pub(super) fn vouch(&self, is_whole: bool) {
        self.has_vouched.set(is_whole);
    }

    /// Why what the replicas said does not count: this node vouched for its part, and has learned in between that it must not, because
    /// its directory is older than what it acknowledged (which can happen only in the first moment of a process, when it hears the
    /// first peer); or another replica lost its disk meanwhile, and a majority was asked for: fewer promise nothing that this could break.
    pub(super) fn taken_back<S: Store>(&self, plan: &Plan<S>) -> Option<QuorumError> {
        let stability = plan.cluster().stability();
        let must_not = self.has_vouched.get() && !stability.has_all();
        let place = must_not.then(|| plan.own_place()).flatten();
        let lost = || stability.lost_disks.place_since(self.began, plan.nodes());
        let place = place.or_else(|| plan.replicas.is_quorum().then(lost).flatten())?;
        Some(QuorumError {
            acked: plan.replicas.ack as usize - 1,
            required: plan.replicas.ack as usize,
            asked: plan.replicas.from as usize,
            failures: vec![(place, Failure::Refused(Refusal::Rebuilding))],
        })
    }
}
