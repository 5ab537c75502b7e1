use std::rc::Rc;

use bytes::Bytes;
use ladoga_cluster::{Failure, Origin, WriteCore};
use ladoga_model::{Cell, Value, Version};
use ladoga_service::Error;

use super::failures::too_few;
use super::plan::Plan;
use super::read::newest_version;
use super::target::Target;
use super::write::{Outcome, Writing};
use crate::planted::{Bug, has, note_version};
use ladoga_local::store::Store;

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

    /// Stores the value on all replicas, and waits for as many as the request asked for. Answers its version.
    pub(super) async fn commit(self) -> Result<Version, Error> {
        let Spread { plan, targets } = self;
        // Sending it again with a newer version would take the whole value; so the newest one is asked for before.
        let (newest, is_quorum) = newest_version(&plan).await;
        if let Some(newest) = newest.filter(|_| !has(Bug::AcknowledgeStaleLarge)) {
            plan.observe(newest)?;
        }
        let stamp = plan.stamp().await?;
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
            Outcome::Stale(_) => Err(Error::Overtaken),
        }
    }
}
