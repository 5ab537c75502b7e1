//! Conditional requests for a key that several nodes are asked for: they queue at one of its nodes, instead of outbidding each other.
//!
//! A node that is asked for a key alone decides by itself, in two round trips. Once two nodes met over a key (see `SharedKeys`), those
//! that are not the first one of the key send their requests there: one hop more, and no ballot in vain. What is forwarded is decided
//! where it arrives.
//!
//! If the other node cannot be reached, or says that it did nothing, the request is decided here. If nobody knows whether it did
//! something, the client is told that: to decide it once more could do it twice.

use std::time::Duration;

use ladoga_cluster::{Failure, NodeId};
use ladoga_model::Version;
use ladoga_service::{Error, Precondition, TooFewReplicas};
use tokio::time::timeout;
use xxhash_rust::xxh3::xxh3_64;

use super::failures::failure;
use super::plan::Plan;
use crate::planted::{Bug, has};
use crate::wire::{
    Answer, CONTENDED, Change, Changed, FORWARD_BYTES_MAX, FORWARD_VERSIONS_MAX, Forward, Forwarded, Request,
};
use ladoga_local::store::Store;

/// The part of the time that is left which the other node may take: a quarter less, and at most so much less. So its answer is there
/// in time, also if that is that it had too little.
const ANSWER_SHARE: u64 = 4;
const ANSWER_MS_MAX: u64 = 100;

/// A conditional request as another node can decide it.
pub(super) struct Forwarding<T> {
    precondition: Precondition,
    change: Change,
    /// What the client is told beside the version.
    told: fn(&Changed) -> T,
}

impl<T> Forwarding<T> {
    /// None if it is too large for that.
    pub(super) fn of(
        precondition: &Precondition,
        change: Change,
        told: fn(&Changed) -> T,
    ) -> Option<Forwarding<T>> {
        let is_short = match precondition {
            Precondition::IfMatch(versions) => versions.len() <= FORWARD_VERSIONS_MAX,
            _ => true,
        };
        let is_small = !matches!(&change, Change::Put(value) if value.len() > FORWARD_BYTES_MAX);
        (is_short && is_small).then(|| Forwarding { precondition: precondition.clone(), change, told })
    }

    /// Has a node decide it. None if it did not, so that it may be decided here.
    pub(super) async fn decide_at<S: Store>(
        self,
        node: NodeId,
        plan: &Plan<S>,
    ) -> Option<Result<(T, Version), Error>> {
        let Forwarding { precondition, change, told } = self;
        let expires_at_ms = match plan.fixed_expiry_ms().await {
            Ok(expires_at_ms) => expires_at_ms,
            Err(error) => return Some(Err(error)),
        };
        let Ok(_place) = plan.cluster().turns.forward(xxh3_64(&plan.key)) else {
            return Some(Err(Error::Contended(CONTENDED[1])));
        };
        let wait_ms = plan.left_ms();
        let left_ms = (wait_ms - (wait_ms / ANSWER_SHARE).min(ANSWER_MS_MAX)) as u32;
        let (key, replicas, durability) = (plan.key.clone(), plan.replicas, plan.durability);
        let forward = Forward { key, replicas, durability, left_ms, expires_at_ms, precondition, change };
        let request = Request::Forward(Box::new(forward));
        let asked = plan.replica.peers.link(node).ask_as_part(&request, plan.trace);
        let failed = match timeout(Duration::from_millis(wait_ms), asked).await {
            Ok(Ok(Answer::Forwarded(forwarded))) => {
                let Forwarded { is_shared, outcome } = *forwarded;
                if is_shared {
                    plan.share();
                }
                let told = |changed: Changed| (told(&changed), changed.stamp.version);
                return outcome.filter(is_final).map(|outcome| outcome.map(told));
            }
            Ok(Ok(Answer::Refused(refusal))) => Failure::Refused(refusal),
            Ok(Ok(_)) => Failure::Broken,
            Ok(Err(error)) => failure(&error),
            Err(_) => Failure::TimedOut,
        };
        let may_have_happened = failed.may_have_done_it() && !has(Bug::DecideAgain);
        may_have_happened.then(|| Err(unknown(plan, node, failed)))
    }
}

/// Whether it says what became of the request. That too few replicas answered the other node does not, if nothing happened.
fn is_final(outcome: &Result<Changed, Error>) -> bool {
    !matches!(outcome, Err(Error::TooFewReplicas(too_few)) if !too_few.may_have_happened)
}

/// The node may have done it, or may do it yet.
fn unknown<S: Store>(plan: &Plan<S>, node: NodeId, failed: Failure) -> Error {
    Error::TooFewReplicas(Box::new(TooFewReplicas {
        acked: 0,
        required: plan.replicas.ack as usize,
        asked: plan.replicas.from as usize,
        failures: vec![(plan.cluster().node_url(node), failed.to_string())],
        may_have_happened: true,
    }))
}
