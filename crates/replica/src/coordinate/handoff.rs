use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{Failure, NodeId, Origin, Refusal, WriteAnswer};
use ladoga_model::{Stamp, Version};

use super::failures::unexpected;
use super::fetch::{copy_once, open_large};
use super::plan::Plan;
use crate::bounds::{CopyName, CopyReader, CopyRequest, Copying, NotCopied};
use crate::own::OwnReplica;
use crate::wire::{Answer, Request};
use ladoga_local::store::Store;

/// What became of a hint of a large value.
pub(crate) enum HandedOff {
    /// The peer has it, or needs it no longer.
    Done,
    /// This promise to a conditional write kept it out.
    Fenced(Version),
    /// No node that may have it can be asked now, it is being brought already, or this node or the peer has too much else to do.
    PutOff,
    /// The peer did not take it.
    Failed,
}

/// Brings the large value that a hint is about to one node of its key, from whichever has it. It does not matter whether others answer.
pub(crate) async fn hand_off<S: Store>(
    replica: &Rc<OwnReplica<S>>,
    key: Bytes,
    stamp: Stamp,
    peer: NodeId,
) -> HandedOff {
    let plan = Plan::of_all(replica, key, stamp);
    let Some(to) = plan.nodes().iter().position(|&node| node == peer) else { return HandedOff::Done };
    match has_it(&plan, to, stamp.version).await {
        Ok(true) => return HandedOff::Done,
        Ok(false) => {}
        Err(Failure::Refused(Refusal::OverCapacity)) => return HandedOff::PutOff,
        Err(_) => return HandedOff::Failed,
    }
    let name = CopyName { key: plan.key.clone(), version: stamp.version, to: peer };
    let nobody: Rc<dyn CopyReader> = Rc::new(Nobody);
    let copy = replica.copies.wish(&replica.cluster.copy_turns, name, &nobody, to);
    let CopyRequest::New(mut copying) = copy else { return HandedOff::PutOff };
    let copied = copy_from_any(&plan, stamp, to, &mut copying).await;
    copying.ends(copied);
    match copied {
        Ok(WriteAnswer::Fenced { fence }) => HandedOff::Fenced(fence),
        // If it is gone, what replaced it has hints of its own; or it is left to anti-entropy.
        Ok(WriteAnswer::Applied | WriteAnswer::Superseded { .. })
        | Err(NotCopied::Gone | NotCopied::ByTarget(Failure::Refused(Refusal::TooOld { .. }))) => {
            HandedOff::Done
        }
        Err(NotCopied::BySource(_) | NotCopied::NoTurn) => HandedOff::PutOff,
        Err(NotCopied::ByTarget(_)) => HandedOff::Failed,
    }
}

/// Whether a replica has this version of the key, or a newer one.
async fn has_it<S: Store>(plan: &Plan<S>, place: usize, version: Version) -> Result<bool, Failure> {
    let request = Request::Read { key: plan.key.clone(), digest: true, origin: Origin::Repair };
    match plan.link(place).ask(&request).await {
        Ok(Answer::Read(answer)) => Ok(answer.cell.is_some_and(|cell| cell.stamp().version >= version)),
        answer => Err(unexpected(answer)),
    }
}

/// Copies a value from this node, or else from the first other one that has it. If none has, that counts as gone as soon as one says so.
async fn copy_from_any<S: Store>(
    plan: &Plan<S>,
    stamp: Stamp,
    to: usize,
    copying: &mut Copying,
) -> Result<WriteAnswer, NotCopied> {
    copying.begin().await?;
    let own = plan.own_place();
    let others = (0..plan.nodes().len()).filter(|place| Some(*place) != own && *place != to);
    let mut outcome = Err(NotCopied::BySource(Failure::Unreachable));
    for holder in own.into_iter().chain(others) {
        let opening = open_large(plan, stamp.version, holder);
        outcome = match (copy_once(plan, stamp, (holder, to), opening, copying).await, outcome) {
            (Err(NotCopied::BySource(_)), Err(NotCopied::Gone)) => Err(NotCopied::Gone),
            (outcome, _) => outcome,
        };
        if !matches!(outcome, Err(NotCopied::Gone | NotCopied::BySource(_))) {
            break;
        }
    }
    outcome
}

/// No client waits for the copies that hints ask for.
struct Nobody;

impl CopyReader for Nobody {
    fn awaits(&self) -> bool {
        false
    }

    fn copied(self: Rc<Self>, _place: usize, _version: Version, _outcome: Result<WriteAnswer, NotCopied>) {}
}
