use std::mem::take;
use std::rc::Rc;

use hyper::StatusCode;
use ladoga_service::{KeyValue, Lookup, NoPieces, Pieces, Value};

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::connection::Streamed;
use crate::http::{EntityTarget, Head, Refusal, Route};

/// Up to this length a value is copied into the buffer of its connection, which stays as large as it once was.
const VALUE_IN_BUFFER_BYTES_MAX: usize = 64 << 10;

/// `GET` and `HEAD` of an entity: answered at once if memory can tell.
pub(super) fn get<K: KeyValue>(
    call: &Call<'_, K>,
    route: Route,
    target: &EntityTarget,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    match call.service()?.get(&call.context(target.replicas()), target.key()) {
        Lookup::Now(found) => with_value(call, route, found?, head),
        Lookup::Later(found) => {
            let (door, link) = (Rc::clone(call.door), Rc::clone(call.link));
            Ok(Reply::later_or(take(head), async move |head| {
                let call = Call { door: &door, link: &link, waited_ms: 0 };
                Ok(with_value(&call, route, found.await?, head)?.outcome().await)
            }))
        }
    }
}

fn with_value<K: KeyValue>(
    call: &Call<'_, K>,
    route: Route,
    found: Option<Value>,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let value = found.ok_or_else(Refusal::not_found)?;
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
fn large_value<K: KeyValue>(
    call: &Call<'_, K>,
    bytes: u64,
    pieces: Box<dyn Pieces>,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let permit = call.door.streams.enter(call.link.address(), 1)?;
    let streamed = streamed(call, bytes, head);
    Ok(Reply::later_or(take(head), async move |_| {
        permit.granted().await;
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { first, permit: Some(permit), ..streamed }))
    }))
}

/// A value of this length, without any of it.
fn streamed<K: KeyValue>(call: &Call<'_, K>, bytes: u64, head: &Head) -> Streamed {
    let delivery = head.delivery();
    Streamed {
        head: delivery.value_head(bytes, call.door.core.clock.wall_ms()),
        first: None,
        end: b"",
        keeps_alive: delivery.keeps_alive,
        permit: None,
    }
}

/// `DELETE` of an entity.
pub(super) fn delete<K: KeyValue>(
    call: &Call<'_, K>,
    target: EntityTarget,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let deleted = call.service()?.delete(&call.context(target.replicas()), target);
    Ok(Reply::later_or(take(head), async move |head| {
        deleted.await?;
        Ok(Outcome::Answer(take(head).empty(StatusCode::ACCEPTED)))
    }))
}
