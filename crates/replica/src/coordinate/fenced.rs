//! Plain reads and writes that promises to a conditional write are in the way of. They wait, as long as its coordinator takes; and
//! take its place, if it does not go on.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use ladoga_cluster::QuorumError;
use ladoga_model::Version;
use ladoga_service::Error;

use super::change::{Decision, NewCell, NewValue, change};
use super::failures::{is_fenced, too_few};
use super::fetch::HeldCell;
use super::plan::Plan;
use super::read::decision;
use super::write::{FENCED_MS_MAX, FENCED_WAIT_MS, PlainWrite, write_unless_fenced};
use crate::own::OwnReplica;
use crate::planted::{Bug, has};
use ladoga_local::store::Store;

/// Writes a cell to the nodes of its key, and answers its version. `None` deletes.
pub(super) async fn write<S: Store>(plan: Plan<S>, value: Option<Bytes>) -> Result<Version, Error> {
    let until_ms = plan.until_ms();
    match write_unless_fenced(&plan, value.as_ref()).await? {
        PlainWrite::Acknowledged(version) => Ok(version),
        PlainWrite::Fenced { earlier } => {
            let rest = plan.rest(until_ms).unwrap_or(plan);
            Box::pin(write_over(rest, value, earlier)).await
        }
    }
}

/// Reads the newest cell of a key from its nodes. If promises to conditional writes are in the way of writing it to the nodes
/// that lack it, it is read again, until they have ended.
pub(super) async fn read<S: Store>(plan: &Plan<S>) -> Result<Option<HeldCell>, Error> {
    let began_ms = plan.replica.core.now_ms();
    match decision(plan).await {
        Ok(newest) => Ok(newest),
        Err(error) if is_fenced(&error) => Box::pin(read_past_fences(plan, began_ms, error)).await,
        Err(error) => Err(too_few(plan, &error, false)),
    }
}

/// Reads again, while `error` says that promises are in the way. After a while, it ends them in the place of whoever was promised. Both
/// that while and the time of the request count from `began_ms`, when it was read first.
async fn read_past_fences<S: Store>(
    plan: &Plan<S>,
    began_ms: u64,
    mut error: QuorumError,
) -> Result<Option<HeldCell>, Error> {
    let until_ms = began_ms + plan.left_ms();
    let mut has_taken_over = false;
    while is_fenced(&error) {
        tokio::time::sleep(Duration::from_millis(FENCED_WAIT_MS)).await;
        let Some(rest) = plan.rest(until_ms) else { break };
        // By an older look, it would be too early, and the next read may take as long again.
        if !has_taken_over && plan.replica.core.look_now_ms() - began_ms >= FENCED_MS_MAX {
            has_taken_over = true;
            // Where that fails, the next read says what is the matter.
            let _ = write_again(rest.clone()).await;
        }
        error = match decision(&rest).await {
            Ok(newest) => return Ok(newest),
            Err(error) => error,
        };
    }
    Err(too_few(plan, &error, false))
}

/// Writes a value, or deletes, whatever is there, in the place of a plain write that promises are in the way of; `earlier` is the
/// version under which a replica may have it already.
async fn write_over<S: Store>(
    plan: Plan<S>,
    value: Option<Bytes>,
    earlier: Option<Version>,
) -> Result<Version, Error> {
    let value = || value.clone().map_or(NewValue::Deleted, NewValue::Inline);
    let decide =
        |_: Option<&HeldCell>| Decision::Replace(NewCell { value: value(), expires_at_ms: None }, ());
    change(plan, Vec::new(), earlier.map(|version| (version, ())), decide).await.map(|((), version)| version)
}

/// Writes the newest cell of a key again, with a newer version, to a majority of its nodes: so that promises end whose coordinator is
/// gone. To say that they are void instead would let older cells pass, while the one that was promised may be somewhere.
async fn write_again<S: Store>(plan: Plan<S>) -> Result<Version, Error> {
    if has(Bug::LeavePromises) {
        return Err(Error::Undecided);
    }
    let decide = |newest: Option<&HeldCell>| {
        let expires_at_ms = Some(newest.map_or(0, |newest| newest.stamp.expires_at_ms));
        Decision::Replace(NewCell { value: NewValue::Same, expires_at_ms }, ())
    };
    change(plan, Vec::new(), None, decide).await.map(|((), version)| version)
}

/// Takes over for a coordinator that is gone, on whichever node its promise is in the way of a cell for so many nodes: writes the
/// newest cell of the key again. Answers whether a majority of these nodes has that.
///
/// Which nodes these are is not to be told by what this node has of the key: it may have nothing, or not be one of them. A majority
/// of all nodes need not have any of those in it that acknowledged the newest cell.
pub(crate) async fn take_over<S: Store>(replica: Rc<OwnReplica<S>>, key: Bytes, copies: u8) -> bool {
    let written = write_again(Plan::of_majority(&replica, key, copies)).await;
    if let Err(error) = &written {
        tracing::debug!(%error, "promises of a coordinator that is gone could not be ended yet");
    }
    written.is_ok()
}
