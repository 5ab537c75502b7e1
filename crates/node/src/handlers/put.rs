use std::mem::take;
use std::rc::Rc;

use hyper::StatusCode;
use hyper::body::Incoming;
use ladoga_model::VALUE_BYTES_MAX;

use super::entity::stamp;
use super::reply::{Outcome, Reply};
use super::service::Call;
use super::upload::upload;
use super::value::read_value;
use crate::coordinate::{self, Plan};
use crate::http::{EntityTarget, Head, Refusal};
use crate::store::{Cell, CellKind, CellValue, LocalStore, Store};

/// A body of this size or less is in the packet of its head as a rule: where it is refused, reading it away is
/// cheaper than another connection.
const REFUSED_BODY_BYTES_MAX: u64 = 4 << 10;

/// `PUT` of an entity. Everything that can be refused is, before the value is read.
pub(super) fn put<S: Store>(
    call: &Call<'_, S>,
    target: EntityTarget,
    body: Incoming,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let bytes = value_bytes(head, &body)?;
    let closing =
        |refusal: Refusal| if bytes > REFUSED_BODY_BYTES_MAX { refusal.and_close() } else { refusal };
    let store = call.store().map_err(closing)?;
    let plan = Plan::of(call.event_loop, &store, &target);
    if plan.is_none() {
        store.admit(CellKind::Put, bytes).map_err(|error| closing(error.into()))?;
    }
    if bytes >= store.upload_bytes_min() {
        return upload(call, store, target, plan, body, head).map_err(closing);
    }
    let room = call.event_loop.core.bodies.enter_with(bytes).map_err(|error| closing(error.into()))?;
    let event_loop = Rc::clone(call.event_loop);
    let link = Rc::clone(call.link);
    Ok(Reply::later_or(take(head), async move |head| {
        let value = read_value(&link, body, bytes).await?;
        if let Some(plan) = plan {
            coordinate::write(plan, Some(value)).await?;
            drop(room);
            return Ok(Outcome::Answer(take(head).empty(StatusCode::CREATED)));
        }
        let stamp = stamp(&event_loop);
        let admitted = coordinate::admit_alone(&event_loop, stamp).await?;
        let cell = Cell { key: target.key(), stamp, value: CellValue::Bytes(&value) };
        let applied = store.apply([cell]);
        // The queue has a copy, and bounds of its own.
        drop((value, room));
        let applied = applied.await;
        drop(admitted);
        applied?;
        Ok(Outcome::Answer(take(head).empty(StatusCode::CREATED)))
    }))
}

fn value_bytes(head: &Head, body: &Incoming) -> Result<u64, Refusal> {
    match head.value_bytes(body) {
        None => Err(Refusal::length_required()),
        Some(bytes) if bytes > VALUE_BYTES_MAX => Err(Refusal::value_too_large(bytes)),
        Some(bytes) => Ok(bytes),
    }
}
