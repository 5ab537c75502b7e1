use bytes::Bytes;
use ladoga_cluster::{AcceptAnswer, Failure, Origin, Refusal, WriteAnswer};
use ladoga_model::{Stamp, Value};

use super::failures::{unexpected, within};
use super::plan::Plan;
use super::starting::until_asked_again;
use crate::link::{PeerError, RemoteStream};
use crate::own::{promises, refusal, replica};
use crate::wire::{Answer, Base, Request};
use ladoga_local::store::{Later, LocalStore, Store, StoreError, Upload};

/// A large value on its way to one replica.
pub(super) enum Target<S: Store> {
    /// This node.
    Local(<S::Local as LocalStore>::Upload),
    /// Another one.
    Remote(RemoteStream),
}

fn refused(error: &StoreError) -> Failure {
    Failure::Refused(refusal(error))
}

impl<S: Store> Target<S> {
    /// A place for the value, asked for at once. It is waited for no longer than the request may take.
    pub(super) fn open(plan: &Plan<S>, place: usize) -> Later<Result<Target<S>, Failure>> {
        if plan.node(place) == plan.cluster().own {
            let upload = plan.replica.store.upload();
            let opened = async move { Ok(Target::Local(upload.await.map_err(|e| refused(&e))?)) };
            return Box::pin(within(plan.left_ms(), opened));
        }
        let plan = plan.clone();
        let open = move |plan: &Plan<S>, limit_ms| {
            let opening = plan.link(place).open((&Request::Upload, plan.trace));
            within(limit_ms, async move { opening.await.map(Target::Remote).map_err(unexpected) })
        };
        let (until_ms, opening) = (plan.until_ms(), open(&plan, plan.left_ms()));
        Box::pin(async move {
            let mut opened = opening.await;
            while matches!(opened, Err(Failure::Refused(Refusal::Starting)))
                && until_asked_again(&plan.replica, plan.node(place)).await
            {
                let left_ms = until_ms.saturating_sub(plan.replica.core.now_ms());
                match open(&plan, left_ms).await {
                    // It is known why.
                    Err(Failure::TimedOut) => break,
                    answer => opened = answer,
                }
            }
            opened
        })
    }

    /// Appends a piece, sent at once. It is waited for as long as for a request: the whole value may take longer.
    pub(super) fn write(self, plan: &Plan<S>, bytes: Bytes) -> Later<Result<Target<S>, Failure>> {
        let limit_ms = plan.cluster().limits.quorum_timeout_ms;
        match self {
            Target::Local(upload) => {
                let written = upload.write(bytes);
                let written =
                    async move { Ok(Target::Local(written.await.map_err(|error| refused(&error))?)) };
                Box::pin(within(limit_ms, written))
            }
            Target::Remote(upload) => {
                let asked = upload.ask(|stream| Request::Push { stream, bytes });
                Box::pin(within(limit_ms, async move {
                    match asked.await {
                        Ok(Answer::Done) => Ok(Target::Remote(upload)),
                        answer => Err(not_taken(answer)),
                    }
                }))
            }
        }
    }

    /// Stores the uploaded value, durably. Answers the replica's answer.
    pub(super) async fn finish(
        self,
        plan: &Plan<S>,
        stamp: Stamp,
        origin: Origin,
    ) -> Result<WriteAnswer, Failure> {
        match self {
            Target::Local(upload) => {
                let finished = upload.finish().await.map_err(|error| refused(&error))?;
                let (cell, origin) = ((&plan.key, stamp), (origin, plan.durability));
                let arrival = replica::arrival(&plan.replica, &plan.key, stamp.version, origin);
                let applied = replica::apply_upload(&plan.replica, cell, finished, arrival, origin).await;
                applied.map_err(Failure::Refused)
            }
            Target::Remote(mut upload) => {
                let (key, durability) = (plan.key.clone(), plan.durability);
                let finish = |stream| Request::Finish { stream, stamp, key, origin, durability };
                let answer = upload.ask_as_part(finish, plan.trace).await;
                mark_closed(&mut upload, &answer);
                answer.map_or_else(
                    |error| Err(unexpected(Err(error))),
                    |answer| answer.into_write_answer().map_err(|other| not_taken(Ok(other))),
                )
            }
        }
    }

    /// Has the replica accept it as the cell of a ballot.
    pub(super) async fn accept(
        self,
        plan: &Plan<S>,
        stamp: Stamp,
        base: Base,
    ) -> Result<AcceptAnswer, Failure> {
        match self {
            Target::Local(upload) => {
                let finished = upload.finish().await.map_err(|error| refused(&error))?;
                let cell = (&plan.key, stamp, Some(Value::Large(finished)));
                let accepted = promises::accept(&plan.replica, cell, base, plan.durability);
                accepted.await.map_err(Failure::Refused)
            }
            Target::Remote(mut upload) => {
                let (key, durability) = (plan.key.clone(), plan.durability);
                let accept = |stream| Request::AcceptUpload { stream, stamp, base, key, durability };
                let answer = upload.ask_as_part(accept, plan.trace).await;
                mark_closed(&mut upload, &answer);
                answer.map_or_else(
                    |error| Err(unexpected(Err(error))),
                    |answer| answer.into_accept_answer().map_err(|other| not_taken(Ok(other))),
                )
            }
        }
    }
}

/// The failure that the answer of a peer to a part of an upload means.
fn not_taken(answer: Result<Answer, PeerError>) -> Failure {
    match answer {
        // It had to make room for others, and has not taken it.
        Ok(Answer::Gone) => Failure::Refused(Refusal::OverCapacity),
        answer => unexpected(answer),
    }
}

/// Whatever a peer answers, it has closed the upload; but not if it was not told for lack of room.
fn mark_closed(upload: &mut RemoteStream, answer: &Result<Answer, PeerError>) {
    if !matches!(answer, Err(PeerError::Full { .. })) {
        upload.mark_closed();
    }
}
