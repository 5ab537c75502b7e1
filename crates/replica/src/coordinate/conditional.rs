//! Requests that depend on what is there, as pure functions of the newest cell.

use bytes::Bytes;
use ladoga_model::{CellMark, Version};
use ladoga_service::{Error, Precondition, incremented};

use super::change::{Decision, NewCell, NewValue, change, seen};
use super::fenced::read;
use super::fetch::HeldCell;
use super::plan::Plan;
use super::spread::Spread;
use ladoga_local::store::Store;

/// Whether what a request depends on is so, by a read with as many replicas as it asks for.
pub(super) async fn admit<S: Store>(plan: Plan<S>, precondition: Precondition) -> Result<(), Error> {
    let newest = seen(&plan, read(&plan).await?).await?;
    precondition.check(newest.as_ref().map(mark))
}

/// Stores a value, or deletes if there is none, if what the request depends on is so. Answers the new version.
pub(super) async fn write_if<S: Store>(
    plan: Plan<S>,
    precondition: Precondition,
    value: Option<Bytes>,
) -> Result<Version, Error> {
    let value = || value.clone().map_or(NewValue::Deleted, NewValue::Inline);
    let changed = change(plan, Vec::new(), None, |newest| replace_if(&precondition, newest, value())).await;
    changed.map(|((), version)| version)
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

/// Adds to a number. Answers the sum and its version.
pub(super) async fn increment<S: Store>(
    plan: Plan<S>,
    precondition: Precondition,
    by: i64,
) -> Result<(i64, Version), Error> {
    let decide = |newest: Option<&HeldCell>| {
        let live = newest.filter(|newest| newest.value.is_some());
        let sum = precondition
            .check(newest.map(mark))
            .and_then(|()| incremented(live.and_then(|live| live.value.as_ref()), by));
        match sum {
            Err(error) => Decision::Leave(Err(error)),
            Ok(sum) => {
                let value = NewValue::Inline(Bytes::from(sum.to_string()));
                // The number is another one, and lives for no longer.
                let expires_at_ms = Some(live.map_or(0, |live| live.stamp.expires_at_ms));
                Decision::Replace(NewCell { value, expires_at_ms }, sum)
            }
        }
    };
    change(plan, Vec::new(), None, decide).await
}

fn replace_if(precondition: &Precondition, newest: Option<&HeldCell>, value: NewValue) -> Decision<()> {
    match precondition.check(newest.map(mark)) {
        Ok(()) => Decision::Replace(NewCell { value, expires_at_ms: None }, ()),
        Err(error) => Decision::Leave(Err(error)),
    }
}

/// What a client sees of a cell; what has expired has no value any more.
fn mark(cell: &HeldCell) -> CellMark {
    CellMark { stamp: cell.stamp, is_tombstone: cell.value.is_none() }
}
