use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_http1::server::BodyLength;
use ladoga_model::VALUE_BYTES_MAX;

use super::entity::stamp;
use super::reply::{Outcome, Reply};
use super::service::Call;
use super::upload::upload;
use super::value::{VALUE_BYTES_UNCOUNTED, read_value};
use crate::coordinate::{self, Plan};
use crate::http::{Answer, EntityTarget, Refusal};
use crate::store::{Cell, CellKind, CellValue, LocalStore, Store};

/// `PUT` of an entity. Everything that can be refused is, before the value is read.
pub(super) fn put<S: Store>(call: &Call<'_, S>, target: EntityTarget, bytes: u64) -> Result<Reply, Refusal> {
    let Admitted { store, plan } = admit(call, &target, bytes)?;
    if bytes >= store.upload_bytes_min() {
        return upload(call, store, target, plan, bytes).map_err(Refusal::and_close);
    }
    let event_loop = Rc::clone(call.event_loop);
    let link = Rc::clone(call.link);
    Ok(Reply::later(async move {
        let (value, room) = read_value(&event_loop.core, &link, bytes).await?;
        if let Some(plan) = plan {
            // Apart, so that a node on its own does not have to carry what a cluster needs.
            Box::pin(coordinate::write(plan, Some(value))).await?;
            drop(room);
            return Ok(Outcome::Answer(Answer::empty(StatusCode::CREATED)));
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
        Ok(Outcome::Answer(Answer::empty(StatusCode::CREATED)))
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

/// The length of the value that a request comes with, where it may be.
pub(super) fn value_bytes(body: BodyLength) -> Result<u64, Refusal> {
    match body {
        BodyLength::Unsaid | BodyLength::Chunked => Err(Refusal::length_required()),
        BodyLength::Known(bytes) if bytes > VALUE_BYTES_MAX => Err(Refusal::value_too_large(bytes)),
        BodyLength::Known(bytes) => Ok(bytes),
    }
}
