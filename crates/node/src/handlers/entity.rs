use std::mem::take;

use hyper::StatusCode;
use ladoga_model::{Stamp, Version};

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::http::{EntityTarget, Head, Refusal, Route};
use crate::server::{EventLoop, NoPieces, Streamed};
use crate::store::{Cell, CellKind, CellValue, LocalStore, Lookup, Pieces, Store, StoreError, Value};

/// Up to this length a value is copied into the buffer of its connection, which stays as large as it once was.
const VALUE_IN_BUFFER_BYTES_MAX: usize = 64 << 10;

/// `GET` and `HEAD` of an entity.
pub(super) fn get<S: Store>(
    call: &Call<'_, S>,
    route: Route,
    target: &EntityTarget,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    match call.store()?.get(target.key()) {
        Lookup::Now(found) => with_value(call, route, found, head),
        Lookup::Later(found) => {
            let event_loop = std::rc::Rc::clone(call.event_loop);
            let link = std::rc::Rc::clone(call.link);
            Ok(Reply::later_or(take(head), async move |head| {
                let call = Call { event_loop: &event_loop, link: &link };
                match with_value(&call, route, found.await, head)? {
                    Reply::Now(outcome) => Ok(outcome),
                    Reply::Later(outcome) => Ok(outcome.await),
                }
            }))
        }
    }
}

fn with_value<S: Store>(
    call: &Call<'_, S>,
    route: Route,
    found: Result<Option<Value>, StoreError>,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let value = found?.ok_or_else(Refusal::not_found)?;
    match (value, route) {
        (Value::Inline(value), Route::Head) => Ok(Reply::now(take(head).value_withheld(value.len() as u64))),
        (Value::Inline(value), _) if value.len() > VALUE_IN_BUFFER_BYTES_MAX => {
            let streamed = streamed(call, value.len() as u64, head);
            Ok(Reply::Now(Outcome::Stream(Streamed { first: Some((value, Box::new(NoPieces))), ..streamed })))
        }
        (Value::Inline(value), _) => Ok(Reply::now(take(head).value(value))),
        (Value::Large { bytes, .. }, Route::Head) => Ok(Reply::now(take(head).value_withheld(bytes))),
        (Value::Large { bytes, pieces }, _) => large_value(call, bytes, pieces, head),
    }
}

/// Streams a value, once its first piece is read: what is wrong with that one can still be said.
fn large_value<S: Store>(
    call: &Call<'_, S>,
    bytes: u64,
    pieces: Box<dyn Pieces>,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let permit = call.event_loop.node.streams.enter()?;
    let streamed = Streamed { permit: Some(permit), ..streamed(call, bytes, head) };
    Ok(Reply::later_or(take(head), async move |_| {
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { first, ..streamed }))
    }))
}

/// A value of this length, without any of it.
fn streamed<S: Store>(call: &Call<'_, S>, bytes: u64, head: &Head) -> Streamed {
    let delivery = head.delivery();
    Streamed {
        head: delivery.value_head(bytes, call.event_loop.core.clock.wall_ms()),
        first: None,
        end: b"",
        keeps_alive: delivery.keeps_alive,
        permit: None,
    }
}

/// `DELETE` of an entity.
pub(super) fn delete<S: Store>(
    call: &Call<'_, S>,
    target: &EntityTarget,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let store = call.store()?;
    store.admit(CellKind::Delete, 0)?;
    let cell = Cell { key: target.key(), stamp: stamp(call.event_loop), value: CellValue::Tombstone };
    let applied = store.apply([cell]);
    Ok(Reply::later_or(take(head), async move |head| {
        applied.await?;
        Ok(Outcome::Answer(take(head).empty(StatusCode::ACCEPTED)))
    }))
}

/// The version of a write that happens now.
pub(super) fn stamp<S: Store>(event_loop: &EventLoop<S>) -> Stamp {
    let node = &event_loop.node;
    let timestamp = node.versions.next(event_loop.core.clock.wall_ms());
    Stamp::new(Version { timestamp, node: node.config.node })
}
