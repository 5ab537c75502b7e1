//! Requests that depend on what is there, as pure functions of the newest cell.

use bytes::Bytes;
use ladoga_model::{Stamp, Version};
use ladoga_service::{Error, Precondition, Sum, may_expire, may_write, sum};

use super::change::{Decision, NewCell, NewValue, change, change_at_one_node, seen};
use super::fenced::read;
use super::fetch::HeldCell;
use super::forward::Forwarding;
use super::plan::Plan;
use super::spread::Spread;
use crate::wire::{Change, Changed};
use ladoga_local::store::Store;

/// Cells are decided about as they were when they were read: what had expired by the time of the cluster has no value any more.
const SEEN_MS: u64 = 0;

/// Whether what a request depends on is so, by a read with as many replicas as it asks for.
pub(super) async fn admit<S: Store>(plan: Plan<S>, precondition: Precondition) -> Result<(), Error> {
    let newest = seen(&plan, read(&plan).await?).await?;
    may_write(&precondition, newest.as_ref(), SEEN_MS)
}

/// Stores a value, or deletes if there is none, if what the request depends on is so. Answers the new version.
pub(super) async fn write_if<S: Store>(
    plan: Plan<S>,
    precondition: Precondition,
    value: Option<Bytes>,
) -> Result<Version, Error> {
    let forwarding = Forwarding::of(&precondition, value.clone().map_or(Change::Delete, Change::Put), |_| ());
    let value = || value.clone().map_or(NewValue::Deleted, NewValue::Inline);
    let decide = |newest: Option<&HeldCell>| replace_if(&precondition, newest, value());
    change_at_one_node(plan, forwarding, decide).await.map(|((), version)| version)
}

/// Stores a large value that the replicas have got, if what the request depends on is so. Answers its version.
pub(super) async fn write_uploaded_if<S: Store>(
    spread: Spread<S>,
    precondition: Precondition,
) -> Result<Version, Error> {
    let Spread { plan, targets } = spread;
    let decide = |newest: Option<&HeldCell>| replace_if(&precondition, newest, NewValue::Uploaded);
    change(plan, targets, None, decide).await.map(|((), version)| version)
}

/// Adds to a number. Answers the sum, its version, and when it expires.
pub(super) async fn increment<S: Store>(
    plan: Plan<S>,
    precondition: Precondition,
    by: i64,
) -> Result<(i64, Stamp), Error> {
    let decide = |newest: Option<&HeldCell>| match sum(&precondition, newest, by, SEEN_MS) {
        Ok(Sum { number, expires_at_ms }) => {
            let value = NewValue::Inline(Bytes::from(number.to_string()));
            Decision::Replace(NewCell { value, expires_at_ms: Some(expires_at_ms) }, (number, expires_at_ms))
        }
        Err(error) => Decision::Leave(Err(error)),
    };
    let told = |changed: &Changed| (changed.sum, changed.stamp.expires_at_ms);
    let forwarding = Forwarding::of(&precondition, Change::Increment(by), told);
    let ((sum, expires_at_ms), version) = change_at_one_node(plan, forwarding, decide).await?;
    Ok((sum, Stamp { expires_at_ms, ..Stamp::new(version) }))
}

/// Has a value expire at another time, or never, as the plan says. Answers its new version and expiry.
pub(super) async fn expire<S: Store>(plan: Plan<S>, precondition: Precondition) -> Result<Stamp, Error> {
    let expires_at_ms = plan.fixed_expiry_ms().await?;
    let decide = |newest: Option<&HeldCell>| match may_expire(&precondition, newest, SEEN_MS) {
        Ok(()) => {
            Decision::Replace(NewCell { value: NewValue::Same, expires_at_ms: Some(expires_at_ms) }, ())
        }
        Err(error) => Decision::Leave(Err(error)),
    };
    let forwarding = Forwarding::of(&precondition, Change::Expire, |_| ());
    let changed = change_at_one_node(plan, forwarding, decide).await;
    changed.map(|((), version)| Stamp { expires_at_ms, ..Stamp::new(version) })
}

fn replace_if(precondition: &Precondition, newest: Option<&HeldCell>, value: NewValue) -> Decision<()> {
    match may_write(precondition, newest, SEEN_MS) {
        Ok(()) => Decision::Replace(NewCell { value, expires_at_ms: None }, ()),
        Err(error) => Decision::Leave(Err(error)),
    }
}
