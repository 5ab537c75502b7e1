use std::future::poll_fn;
use std::rc::Rc;
use std::task::{self, Poll};

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, WriteCore};
use ladoga_model::{Cell, Value, Version};
use ladoga_runtime::{Address, Gate};
use ladoga_service::{Context, Error};

use super::failures::too_few;
use super::fetch::{HeldValue, open_held};
use super::plan::Plan;
use super::read::newest_version;
use super::target::Target;
use super::write::{Outcome, Writing};
use crate::planted::{Bug, has, note_version};
use crate::wire::INLINE_BYTES_MAX;
use ladoga_local::store::{Later, Store, StoreError};

/// What is sent of a value at a time: whoever has all of it in memory gives it as one piece, of whatever length.
const PIECE_BYTES_MAX: usize = INLINE_BYTES_MAX as usize;

/// A large value on its way to all replicas of its key, in step: a piece is sent once the one before is written
/// everywhere, so that it is held once. A replica that fails, or does not answer in time, is left out from there on.
pub(super) struct Spread<S: Store> {
    pub(super) plan: Plan<S>,
    /// By place.
    pub(super) targets: Targets<S>,
}

/// A large value at the replicas of its key, by their places; or why one has not got it.
pub(super) type Targets<S> = Vec<Result<Target<S>, Failure>>;

/// Begins to write a large value to the nodes of its key. Once as many have a place for it as have to answer, peers that cannot be
/// reached, as far as this node knows, are waited for no longer: they get hints.
pub(super) async fn spread<S: Store>(plan: Plan<S>) -> Spread<S> {
    let asked = (0..plan.nodes().len()).map(|place| Target::open(&plan, place));
    let mut opening: Vec<_> = asked.map(Opening::Asked).collect();
    poll_fn(|context| {
        opening.iter_mut().for_each(|opening| opening.poll(context));
        let opened = opening.iter().filter(|opening| matches!(opening, Opening::Done(Ok(_)))).count();
        let is_enough = opened >= plan.replicas.ack as usize;
        let is_over = |(place, opening): (usize, &Opening<S>)| {
            matches!(opening, Opening::Done(_)) || is_enough && plan.is_away(place)
        };
        if opening.iter().enumerate().all(is_over) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let targets = opening.into_iter().map(|opening| match opening {
        Opening::Asked(_) => Err(Failure::Unreachable),
        Opening::Done(target) => target,
    });
    Spread { targets: targets.collect(), plan }
}

/// A place for a large value at a replica, which was asked for.
enum Opening<S: Store> {
    Asked(Later<Result<Target<S>, Failure>>),
    Done(Result<Target<S>, Failure>),
}

impl<S: Store> Opening<S> {
    fn poll(&mut self, context: &mut task::Context<'_>) {
        if let Opening::Asked(asked) = self
            && let Poll::Ready(target) = asked.as_mut().poll(context)
        {
            *self = Opening::Done(target);
        }
    }
}

/// Sends a large value from the replica that has it to all of its key, through the memory of a piece, so that it can be stored
/// there under another version; none if it was replaced since then.
pub(super) async fn spread_again<S: Store>(
    plan: &Plan<S>,
    version: Version,
    held: HeldValue,
) -> Result<Option<Targets<S>>, StoreError> {
    let node = &plan.replica;
    // Places here, as for a client's value; peers look after theirs. Nobody gives way to it.
    let enter = |gate: &Gate| {
        let bound = "the large values that are written again";
        gate.enter_if_room(Address::Own, 1).map_err(|_| StoreError::OverCapacity { bound })
    };
    let is_here = plan.node(held.holder) == plan.cluster().own;
    let source = is_here.then(|| enter(&node.streams)).transpose()?;
    let place = plan.own_place().map(|_| enter(&node.uploads)).transpose()?;
    for permit in [&source, &place].into_iter().flatten() {
        permit.granted().await;
    }
    let Some(mut pieces) = open_held(plan, version, held).await? else { return Ok(None) };
    let mut spread = spread(plan.clone()).await;
    while let Some((bytes, rest)) = pieces.next().await? {
        spread = spread.write(bytes).await;
        pieces = rest;
    }
    Ok(Some(spread.targets))
}

impl<S: Store> Spread<S> {
    /// The same with all that a context asks for.
    pub(super) fn with(self, context: &Context) -> Spread<S> {
        Spread { plan: self.plan.with(context), ..self }
    }

    /// Sends what comes next of the value, the first piece of it at once, and waits until all of it is written everywhere.
    pub(super) fn write(self, mut bytes: Bytes) -> impl Future<Output = Spread<S>> + use<S> + 'static {
        let mut next_piece = move || bytes.split_to(bytes.len().min(PIECE_BYTES_MAX));
        let writing = self.write_piece(&next_piece());
        async move {
            let mut spread = writing.await;
            loop {
                let piece = next_piece();
                if piece.is_empty() {
                    return spread;
                }
                spread = spread.write_piece(&piece).await;
            }
        }
    }

    /// Sends a piece at once, and waits until it is written everywhere.
    fn write_piece(self, piece: &Bytes) -> impl Future<Output = Spread<S>> + use<S> + 'static {
        let Spread { plan, targets } = self;
        let write = |target: Target<S>| target.write(&plan, piece.clone());
        let writing: Vec<_> = targets.into_iter().map(|target| target.map(write)).collect();
        async move {
            let mut targets = Vec::with_capacity(writing.len());
            for target in writing {
                targets.push(match target {
                    Ok(writing) => writing.await,
                    Err(failure) => Err(failure),
                });
            }
            Spread { plan, targets }
        }
    }

    /// Stores the value on all replicas, and waits for as many as the request asked for. Answers its version.
    pub(super) async fn commit(self) -> Result<Version, Error> {
        let Spread { plan, targets } = self;
        let until_ms = plan.until_ms();
        // Sending it again with a newer version would take the whole value; so the newest one is asked for before. If nobody says it, as
        // much time is left to write.
        let half = plan.rest(until_ms - plan.left_ms() / 2);
        let (newest, is_quorum) = newest_version(half.as_ref().unwrap_or(&plan)).await;
        if let Some(newest) = newest.filter(|_| !has(Bug::AcknowledgeStaleLarge)) {
            plan.observe(newest)?;
        }
        let stamp = plan.stamp().await?;
        let plan = plan.rest(until_ms).unwrap_or(plan);
        let core = if is_quorum || has(Bug::AcknowledgeStaleLarge) {
            // What is newer came since it was asked for: at the same time, so that this write may have been before it.
            WriteCore::after_newest(plan.replicas)
        } else {
            WriteCore::new(plan.replicas)
        };
        let writing = Writing::new(&plan, core, Cell { stamp, value: Some(Value::Large(())) });
        for (place, target) in targets.into_iter().enumerate() {
            match target {
                Ok(target) => {
                    let (plan, writing) = (plan.clone(), Rc::clone(&writing));
                    tokio::task::spawn_local(async move {
                        let finished = target.finish(&plan, stamp, Origin::Client).await;
                        writing.replica_answered(place, finished);
                    });
                }
                Err(failure) => writing.replica_answered(place, Err(failure)),
            }
        }
        match writing.decision.take().await {
            Outcome::Acknowledged => {
                note_version(Some(stamp.version));
                Ok(stamp.version)
            }
            Outcome::Failed(error) => Err(too_few(&plan, &error, true)),
            // (It is not asked for again, so that no promise is waited for.)
            Outcome::Stale(_) | Outcome::Fenced { .. } => Err(Error::Overtaken),
        }
    }
}
