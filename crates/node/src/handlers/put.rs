use std::mem::take;
use std::rc::Rc;

use hyper::StatusCode;
use hyper::body::Incoming;
use ladoga_model::VALUE_BYTES_MAX;

use super::entity::stamp;
use super::reply::{Outcome, Reply};
use super::service::Call;
use super::upload::upload;
use super::value::{VALUE_BYTES_UNCOUNTED, discard_arrived, read_value};
use crate::coordinate::{self, Plan};
use crate::http::{EntityTarget, Head, Refusal};
use crate::store::{Cell, CellKind, CellValue, LocalStore, Store};

/// A body of up to this size that has arrived by the time it is refused is read away: that costs both sides less than
/// another connection does.
const REFUSED_BODY_BYTES_MAX: u64 = 64 << 10;

/// `PUT` of an entity. Everything that can be refused is, before the value is read.
pub(super) fn put<S: Store>(
    call: &Call<'_, S>,
    target: EntityTarget,
    body: Incoming,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let bytes = value_bytes(head, &body)?;
    let Admitted { store, plan } = match admit(call, &target, bytes) {
        Ok(admitted) => admitted,
        Err(refusal) => return refuse(call, refusal, body, bytes, head),
    };
    if bytes >= store.upload_bytes_min() {
        return upload(call, store, target, plan, body, head).map_err(Refusal::and_close);
    }
    let event_loop = Rc::clone(call.event_loop);
    let link = Rc::clone(call.link);
    Ok(Reply::later_or(take(head), async move |head| {
        let (value, room) = read_value(&event_loop.core, &link, body, bytes).await?;
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

/// What a value needs that is let in.
struct Admitted<S: Store> {
    store: Rc<S::Local>,
    plan: Option<Plan<S>>,
}

fn admit<S: Store>(call: &Call<'_, S>, target: &EntityTarget, bytes: u64) -> Result<Admitted<S>, Refusal> {
    let store = call.store()?;
    let plan = Plan::of(call.event_loop, &store, target, call.waited_ms);
    if plan.is_none() {
        store.admit(CellKind::Put, bytes)?;
    }
    // Room is taken once the value arrives. Where there would be none, it need not be sent.
    if bytes > VALUE_BYTES_UNCOUNTED && bytes < store.upload_bytes_min() {
        call.event_loop.core.bodies.check(call.link.address(), bytes)?;
    }
    Ok(Admitted { store, plan })
}

/// Refuses a value. Where nothing of it is missing that the client is about to send, its connection can be kept.
fn refuse<S: Store>(
    call: &Call<'_, S>,
    refusal: Refusal,
    body: Incoming,
    bytes: u64,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    // To read would be to tell a client to send that waits for that.
    if bytes > REFUSED_BODY_BYTES_MAX || head.expects_continue() {
        return Err(refusal.and_close());
    }
    let link = Rc::clone(call.link);
    Ok(Reply::later_or(take(head), async move |_| {
        Err(if discard_arrived(&link, body, bytes).await { refusal } else { refusal.and_close() })
    }))
}

/// The length of the value that a request comes with, where it may be.
pub(super) fn value_bytes(head: &Head, body: &Incoming) -> Result<u64, Refusal> {
    match head.value_bytes(body) {
        None => Err(Refusal::length_required()),
        Some(bytes) if bytes > VALUE_BYTES_MAX => Err(Refusal::value_too_large(bytes)),
        Some(bytes) => Ok(bytes),
    }
}
