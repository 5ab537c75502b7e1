//! A change of a key that depends on what is there: one ballot after another, until one is accepted or there is nothing to change.

use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::{Ballots, Course, NodeId, ProposalError};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_service::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::failures::{is_fenced, too_few};
use super::fetch::HeldCell;
use super::forward::Forwarding;
use super::plan::Plan;
use super::propose::Proposal;
use super::proposing::Promise;
use super::read::decision;
use super::spread::{Targets, spread_again};
use crate::bounds::{NoTurn, Turn};
use crate::planted::{Bug, has, note_version};
use crate::wire::CONTENDED;
use ladoga_local::store::Store;

/// How often a request proposes before it gives up. Each time, others were faster, and it waits longer.
const BALLOTS_MAX: u32 = 32;
/// What a request that was outbid waits for at most, the first time and after many; times its coordinator's place.
const BACK_OFF_MS_MIN: u64 = 4;
const BACK_OFF_MS_MAX: u64 = 128;

/// What a request makes of the newest cell.
pub(super) enum Decision<T> {
    /// Something else takes its place; the answer is this, and the new version.
    Replace(NewCell, T),
    /// It stays. The answer is this, once the cell is known to be what everybody reads.
    Leave(Result<(T, Version), Error>),
}

/// What takes the place of the newest cell.
pub(super) struct NewCell {
    pub(super) value: NewValue,
    /// When it expires; none if the request's own time to live says that.
    pub(super) expires_at_ms: Option<u64>,
}

/// The value of it.
pub(super) enum NewValue {
    /// In memory.
    Inline(Bytes),
    /// The large one that came with the request: the replicas have got it.
    Uploaded,
    /// The one that is there, however large.
    Same,
    /// None: a deletion.
    Deleted,
}

/// Changes a key as `decide` says by its newest cell, as of the time of the cluster, and by nothing else: it may be asked again. A
/// large value is at the replicas by then. `earlier` is a version under which a replica may have the change already.
pub(super) async fn change<S: Store, T: Clone>(
    plan: Plan<S>,
    targets: Targets<S>,
    earlier: Option<(Version, T)>,
    decide: impl Fn(Option<&HeldCell>) -> Decision<T>,
) -> Result<(T, Version), Error> {
    Changing::new(decide, targets, earlier, None).carry_out(&plan).await
}

/// The same for a request of a client, which another node may decide while several are asked for the key.
pub(super) async fn change_at_one_node<S: Store, T: Clone>(
    plan: Plan<S>,
    forwarding: Option<Forwarding<T>>,
    decide: impl Fn(Option<&HeldCell>) -> Decision<T>,
) -> Result<(T, Version), Error> {
    Changing::new(decide, Vec::new(), None, forwarding).carry_out(&plan).await
}

/// A cell as clients see it by the time of the cluster.
pub(super) async fn seen<S: Store>(
    plan: &Plan<S>,
    newest: Option<HeldCell>,
) -> Result<Option<HeldCell>, Error> {
    match newest {
        Some(newest) => plan.as_of_now(newest).await.map(Some),
        None => Ok(None),
    }
}

/// Waits until no other request of this node changes the key.
async fn wait_for_turn<S: Store>(plan: &Plan<S>) -> Result<Turn, Error> {
    let turns = &plan.cluster().turns;
    turns.wait(xxh3_64(&plan.key), plan.left_ms()).await.map_err(|error| match error {
        NoTurn::Full => Error::Contended(CONTENDED[1]),
        NoTurn::TooLate => Error::Contended(CONTENDED[2]),
    })
}

/// Waits for those who were faster, after so many attempts: two that propose at the same time outbid each other. The first
/// nodes of a key wait the least, so that one of them goes on.
async fn back_off<S: Store>(plan: &Plan<S>, attempts: u32) {
    let doublings = attempts - 1;
    let place = plan.own_place().unwrap_or(plan.nodes().len()) as u64;
    let window_ms = (BACK_OFF_MS_MIN << doublings.min(16)).min(BACK_OFF_MS_MAX) * (place + 1);
    // Spread like random numbers: other ones on each node, and each time.
    let cluster = plan.cluster();
    let spread = xxh3_64(&[cluster.versions.next(), u64::from(cluster.own.0)].map(u64::to_le_bytes).concat());
    tokio::time::sleep(Duration::from_millis(spread % window_ms)).await;
}

/// A change under way.
struct Changing<S: Store, T, D> {
    decide: D,
    /// A large value at the replicas, until they are asked to accept it.
    targets: Targets<S>,
    /// What may be somewhere.
    ballots: Ballots<T>,
    /// How another node can decide it; none if it cannot, or did not.
    forwarding: Option<Forwarding<T>>,
    /// Whether an earlier promise keeps the newest cell away from a replica that lacks it. Only a newer cell gets past that: whoever was
    /// promised it may be gone, and end it never.
    is_kept_out: bool,
}

impl<S: Store, T: Clone, D: Fn(Option<&HeldCell>) -> Decision<T>> Changing<S, T, D> {
    fn new(
        decide: D,
        targets: Targets<S>,
        earlier: Option<(Version, T)>,
        forwarding: Option<Forwarding<T>>,
    ) -> Self {
        Changing { decide, targets, ballots: Ballots::new(earlier), forwarding, is_kept_out: false }
    }

    async fn carry_out(mut self, plan: &Plan<S>) -> Result<(T, Version), Error> {
        let changed = self.decided(plan).await;
        if let Ok((_, version)) = &changed {
            note_version(Some(*version));
        }
        changed.map_err(|error| self.unless_it_may_have_happened(error))
    }

    /// Has it decided: at the node where the requests for the key queue, or here, when it is its turn.
    async fn decided(&mut self, plan: &Plan<S>) -> Result<(T, Version), Error> {
        let until_ms = plan.until_ms();
        if self.forwarding.is_some() {
            plan.note_request_of_client();
        }
        let mut turn = None;
        let mut attempt = 0;
        while attempt < BALLOTS_MAX {
            let Some(rest) = plan.rest(until_ms) else { break };
            if let Some((forwarding, node)) = self.forward_to(&rest) {
                drop(turn.take());
                match forwarding.decide_at(node, &rest).await {
                    Some(decided) => return decided,
                    None => continue,
                }
            }
            if turn.is_none() {
                turn = Some(wait_for_turn(&rest).await?);
                // Whoever had it before may have met another node.
                continue;
            }
            if let Some(changed) = self.attempt(&rest).await? {
                return Ok(changed);
            }
            attempt += 1;
            if attempt < BALLOTS_MAX {
                back_off(plan, attempt).await;
            }
        }
        Err(Error::Contended(CONTENDED[0]))
    }

    /// How another node can decide it, and which, if it should: once, and only as long as nothing of it may be anywhere.
    fn forward_to(&mut self, plan: &Plan<S>) -> Option<(Forwarding<T>, NodeId)> {
        if self.forwarding.is_none() || !self.ballots.is_empty() || !plan.is_shared() {
            return None;
        }
        let node = plan.queue_node()?;
        self.forwarding.take().map(|forwarding| (forwarding, node))
    }

    /// Proposes once. Answers what came of it, or nothing if it is to be tried again.
    async fn attempt(&mut self, plan: &Plan<S>) -> Result<Option<(T, Version)>, Error> {
        let stamp = plan.stamp().await?;
        let proposal = Proposal::begin(plan, stamp.version);
        let Promise { newest, is_stable } = match proposal.promised().await {
            Ok(promise) => promise,
            Err(ProposalError::Outbid { newest, .. }) => return plan.observe_outbid(newest).map(|()| None),
            Err(ProposalError::TooFew { .. }) if proposal.is_taken_back() => return Ok(None),
            Err(ProposalError::TooFew { error, .. }) => return Err(too_few(plan, &error, false)),
        };
        let newest_version = newest.as_ref().map(|newest| newest.stamp.version);
        match self.ballots.course(newest_version, is_stable) {
            Course::Done(answer) if plan.replicas.ack as usize <= plan.replicas.majority() => {
                return Ok(newest_version.map(|version| (answer, version)));
            }
            Course::Done(answer) => {
                let same = self.same(plan, newest).await?;
                return self.replace(plan, (proposal, stamp), same, Some(answer)).await;
            }
            Course::Again(answer) => {
                let same = self.same(plan, newest).await?;
                return self.replace(plan, (proposal, stamp), same, answer).await;
            }
            Course::Unknown => return Err(Error::Undecided),
            Course::Decide => {}
        }
        match (self.decide)(seen(plan, newest.clone()).await?.as_ref()) {
            Decision::Replace(NewCell { value, expires_at_ms }, answer) => {
                let replacement = match value {
                    NewValue::Inline(bytes) => Some(Replacement::inline(Some(bytes))),
                    NewValue::Deleted => Some(Replacement::inline(None)),
                    NewValue::Uploaded => Some(self.uploaded()?),
                    NewValue::Same => self.same(plan, newest).await?,
                };
                let expires_at_ms = expires_at_ms.unwrap_or(stamp.expires_at_ms);
                let replacement = replacement
                    .map(|replacement| Replacement { expires_at_ms: Some(expires_at_ms), ..replacement });
                self.replace(plan, (proposal, stamp), replacement, Some(answer)).await
            }
            Decision::Leave(answer) if self.ballots.is_empty() && (is_stable || !self.is_kept_out) => {
                proposal.release();
                let is_sure = is_stable || has(Bug::RefuseOnUnstableState);
                if is_sure { answer.map(Some) } else { self.leave(plan).await }
            }
            Decision::Leave(_) => {
                let same = self.same(plan, newest).await?;
                self.replace(plan, (proposal, stamp), same, None).await
            }
        }
    }

    /// There is nothing to change, by a cell that some of the majority lack. A read with a quorum makes it known to a majority, or
    /// finds another one; if a promise is in the way of that, the next ballot has it accepted once more.
    async fn leave(&mut self, plan: &Plan<S>) -> Result<Option<(T, Version)>, Error> {
        let newest = match decision(plan).await {
            Ok(newest) => newest,
            Err(error) if is_fenced(&error) => {
                self.is_kept_out = true;
                return Ok(None);
            }
            Err(error) => return Err(too_few(plan, &error, false)),
        };
        match (self.decide)(seen(plan, newest).await?.as_ref()) {
            Decision::Leave(answer) => answer.map(Some),
            Decision::Replace(..) => Ok(None),
        }
    }

    /// The large value that came with the request.
    fn uploaded(&mut self) -> Result<Replacement<S>, Error> {
        if self.targets.is_empty() {
            // They were asked to accept it and did not: they have let go of it.
            return Err(Error::Contended("another request changed the key while a large value was stored"));
        }
        let targets = std::mem::take(&mut self.targets);
        Ok(Replacement { value: Some(Value::Large(())), targets, expires_at_ms: None })
    }

    /// The newest cell, once more; none if its value is gone by now, so that there is something newer.
    async fn same(&self, plan: &Plan<S>, newest: Option<HeldCell>) -> Result<Option<Replacement<S>>, Error> {
        let Some(Cell { stamp, value }) = newest else { return Ok(Some(Replacement::inline(None))) };
        let replacement = match value {
            None => Replacement::inline(None),
            Some(Value::Inline(bytes)) => Replacement::inline(Some(bytes)),
            Some(Value::Large(held)) => match spread_again(plan, stamp.version, held).await? {
                Some(targets) => Replacement { value: Some(Value::Large(())), targets, expires_at_ms: None },
                None => return Ok(None),
            },
        };
        Ok(Some(Replacement { expires_at_ms: Some(stamp.expires_at_ms), ..replacement }))
    }

    /// Has a cell accepted. With an answer it is the change itself; without one it keeps earlier cells of the request out.
    async fn replace(
        &mut self,
        plan: &Plan<S>,
        (proposal, stamp): (Proposal<S>, Stamp),
        replacement: Option<Replacement<S>>,
        answer: Option<T>,
    ) -> Result<Option<(T, Version)>, Error> {
        let Some(Replacement { value, targets, expires_at_ms }) = replacement.filter(|_| !proposal.is_late())
        else {
            return Ok(None);
        };
        let stamp = Stamp { expires_at_ms: expires_at_ms.unwrap_or(0), ..stamp };
        let version = stamp.version;
        let (may_have_happened, outcome) = match proposal.accept(Cell { stamp, value }, targets).await {
            Ok(()) => {
                self.ballots.buried();
                self.is_kept_out = false;
                return Ok(answer.map(|answer| (answer, version)));
            }
            Err(ProposalError::Outbid { newest, may_have_happened }) => {
                (may_have_happened, plan.observe_outbid(newest))
            }
            Err(ProposalError::TooFew { error, may_have_happened }) => {
                // Another ballot shows what became of it; but not that more replicas have it, which the request asks for.
                let is_open = may_have_happened && error.acked < plan.replicas.majority();
                (may_have_happened, if is_open { Ok(()) } else { Err(too_few(plan, &error, false)) })
            }
        };
        if may_have_happened {
            self.ballots.left(version, answer);
        }
        outcome.map(|()| None)
    }

    /// An error, which says that nothing happened, as the client may be told it.
    fn unless_it_may_have_happened(&self, error: Error) -> Error {
        if !self.ballots.carry_something() {
            return error;
        }
        match error {
            Error::TooFewReplicas(mut too_few) => {
                too_few.may_have_happened = true;
                Error::TooFewReplicas(too_few)
            }
            _ => Error::Undecided,
        }
    }
}

/// What replicas are asked to accept.
struct Replacement<S: Store> {
    value: Option<Value<Bytes, ()>>,
    /// Where a large one is.
    targets: Targets<S>,
    expires_at_ms: Option<u64>,
}

impl<S: Store> Replacement<S> {
    /// A value in memory, or a deletion, that does not expire.
    fn inline(value: Option<Bytes>) -> Replacement<S> {
        Replacement { value: value.map(Value::Inline), targets: Vec::new(), expires_at_ms: None }
    }
}
