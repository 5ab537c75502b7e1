//! Conditional requests that another node forwarded: they are decided here, and go no further.

use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{NodeId, Refusal};
use ladoga_model::{Stamp, TraceContext, Version};
use ladoga_service::Error;

use super::conditional::{expire, increment, write_if};
use super::plan::Plan;
use crate::own::OwnReplica;
use crate::wire::{Answer, Change, Changed, Forward, Forwarded};
use ladoga_local::store::Store;

/// Decides a request that came through another node.
pub(crate) async fn decide_forwarded<S: Store>(
    replica: Rc<OwnReplica<S>>,
    (through, trace): (NodeId, Option<TraceContext>),
    forward: Forward,
) -> Answer {
    if !replica.cluster.stability().may_coordinate() {
        return Answer::Refused(Refusal::Starting);
    }
    let Some(plan) = Plan::of_forwarded(&replica, &forward, trace) else {
        return Answer::Forwarded(Box::new(Forwarded { is_shared: false, outcome: None }));
    };
    plan.note_request(through);
    let outcome = Some(decide(plan.clone(), forward).await);
    Answer::Forwarded(Box::new(Forwarded { is_shared: plan.is_shared(), outcome }))
}

async fn decide<S: Store>(plan: Plan<S>, forward: Forward) -> Result<Changed, Error> {
    let Forward { precondition, change, .. } = forward;
    let written = |version: Version| Changed { stamp: Stamp::new(version), sum: 0 };
    match change {
        Change::Put(value) => write_if(plan, precondition, Some(value)).await.map(written),
        Change::Delete => write_if(plan, precondition, None::<Bytes>).await.map(written),
        Change::Increment(by) => {
            let (sum, stamp) = increment(plan, precondition, by).await?;
            Ok(Changed { stamp, sum })
        }
        Change::Expire => expire(plan, precondition).await.map(|stamp| Changed { stamp, sum: 0 }),
    }
}
