use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, Refusal};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_service::Error;

use super::fetch::unexpected;
use super::plan::Plan;
use super::read::newest_version;
use super::starting::until_asked_again;
use super::trouble::too_few;
use super::write::{Outcome, Writing};
use crate::link::{PeerError, RemoteStream};
use crate::own::replica;
use crate::planted::{Bug, has, note_version};
use crate::wire::{Answer, Request};
use ladoga_local::store::{Later, LocalStore, Store, StoreError, Upload};

/// A large value on its way to one replica.
pub(super) enum Target<S: Store> {
    /// This node.
    Local(<S::Local as LocalStore>::Upload),
    /// Another one.
    Remote(RemoteStream),
}

fn refused(error: &StoreError) -> Failure {
    Failure::Refused(replica::refusal(error))
}

impl<S: Store> Target<S> {
    /// A place for the value, asked for at once.
    pub(super) fn open(plan: &Plan<S>, place: usize) -> Later<Result<Target<S>, Failure>> {
        if plan.node(place) == plan.cluster().own {
            let upload = plan.replica.store.upload();
            return Box::pin(async move { Ok(Target::Local(upload.await.map_err(|e| refused(&e))?)) });
        }
        let opening = plan.link(place).open(&Request::Upload);
        let plan = plan.clone();
        let until_ms = plan.replica.core.now_ms() + plan.left_ms();
        Box::pin(async move {
            let mut opened = opening.await;
            while matches!(opened, Err(Ok(Answer::Refused(Refusal::Starting))))
                && until_asked_again(&plan.replica, plan.node(place)).await
                && plan.replica.core.now_ms() < until_ms
            {
                opened = plan.link(place).open(&Request::Upload).await;
            }
            opened.map(Target::Remote).map_err(unexpected)
        })
    }

    /// Appends a piece, sent at once.
    pub(super) fn write(self, bytes: Bytes) -> Later<Result<Target<S>, Failure>> {
        match self {
            Target::Local(upload) => {
                let written = upload.write(bytes);
                Box::pin(async move { Ok(Target::Local(written.await.map_err(|error| refused(&error))?)) })
            }
            Target::Remote(upload) => {
                let asked = upload.ask(|stream| Request::Push { stream, bytes });
                Box::pin(async move {
                    match asked.await {
                        Ok(Answer::Done) => Ok(Target::Remote(upload)),
                        answer => Err(unexpected(answer)),
                    }
                })
            }
        }
    }

    /// Makes it durable, and stores it. Answers the version that the replica had already, if that one is newer.
    pub(super) async fn finish(
        self,
        plan: &Plan<S>,
        stamp: Stamp,
        origin: Origin,
    ) -> Result<Option<Version>, Failure> {
        match self {
            Target::Local(upload) => {
                let finished = upload.finish().await.map_err(|error| refused(&error))?;
                let bytes = plan.replica.store.upload_bytes_min();
                let admitted = replica::admit(&plan.replica, stamp, Some(bytes), origin);
                let admitted = admitted.map_err(Failure::Refused)?;
                let cell = Cell { stamp, value: Some(Value::Large(finished)) };
                let applied = plan.replica.store.apply([(&plan.key[..], cell)]).await;
                drop(admitted);
                applied.map(|()| None).map_err(|error| refused(&error))
            }
            Target::Remote(mut upload) => {
                let key = plan.key.clone();
                let answer = upload.ask(|stream| Request::Finish { stream, stamp, key, origin }).await;
                // Whatever it answers, it has closed it; but not what it was not told for lack of room.
                if !matches!(answer, Err(PeerError::Full { .. })) {
                    upload.mark_closed();
                }
                match answer {
                    Ok(Answer::Done) => Ok(None),
                    Ok(Answer::Stale(newer)) => Ok(Some(newer)),
                    answer => Err(unexpected(answer)),
                }
            }
        }
    }
}

/// A large value on its way to all replicas of its key, in step: a piece is sent once the one before is written
/// everywhere, so that it is held once. A replica that fails is left out from there on.
pub(super) struct Spread<S: Store> {
    plan: Plan<S>,
    /// By place.
    targets: Vec<Result<Target<S>, Failure>>,
}

/// Begins to write a large value to the nodes of its key.
pub(super) async fn spread<S: Store>(plan: Plan<S>) -> Spread<S> {
    let opening: Vec<_> = (0..plan.nodes().len()).map(|place| Target::open(&plan, place)).collect();
    let mut targets = Vec::with_capacity(opening.len());
    for target in opening {
        targets.push(target.await);
    }
    Spread { plan, targets }
}

impl<S: Store> Spread<S> {
    /// Sends a piece at once, and waits until it is written everywhere.
    pub(super) fn write(self, bytes: &Bytes) -> impl Future<Output = Spread<S>> + use<S> + 'static {
        let Spread { plan, targets } = self;
        let writing: Vec<_> =
            targets.into_iter().map(|target| target.map(|target| target.write(bytes.clone()))).collect();
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

    /// Stores the value on all replicas, and waits for as many as the request asked for.
    pub(super) async fn commit(self) -> Result<(), Error> {
        let Spread { plan, targets } = self;
        // Sending it again with a newer version would take the whole value; so the newest one is asked for before.
        let (newest, is_quorum) = newest_version(&plan).await;
        if let Some(newest) = newest.filter(|_| !has(Bug::AcknowledgeStaleLarge)) {
            plan.observe(newest)?;
        }
        let stamp = plan.stamp().await?;
        let writing = Writing::new(&plan, Cell { stamp, value: Some(Value::Large(())) });
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
        match (writing.decision.take().await, is_quorum || has(Bug::AcknowledgeStaleLarge)) {
            // What is newer came since it was asked for: at the same time, so that this write may have been before it.
            (Outcome::Acknowledged, _) | (Outcome::Stale(_), true) => {
                note_version(Some(stamp.version));
                Ok(())
            }
            (Outcome::Failed(error), _) => Err(too_few(&plan, &error, true)),
            (Outcome::Stale(_), false) => Err(Error::Overtaken),
        }
    }
}
