use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_runtime::Operation;
use ladoga_service::{KeyValue, LargeValue, Lookup, Pieces, Value};

use super::call::{Call, Outcome, Reply};
use crate::connection::Streamed;
use crate::http::{Answer, EntityTarget, OCTETS, Refusal};

/// `GET` and `HEAD` of an entity: answered at once if memory can tell.
pub(super) fn get<K: KeyValue>(
    call: &Call<'_, K>,
    operation: Operation,
    target: &EntityTarget,
) -> Result<Reply, Refusal> {
    match call.service()?.get(&call.context(target.replicas()), target.key()) {
        Lookup::Now(found) => with_value(call, operation, found?),
        Lookup::Later(found) => {
            let (door, link) = (Rc::clone(call.door), Rc::clone(call.link));
            Ok(Reply::later(async move {
                let call = Call { door: &door, link: &link, waited_ms: 0 };
                Ok(with_value(&call, operation, found.await?)?.outcome().await)
            }))
        }
    }
}

fn with_value<K: KeyValue>(
    call: &Call<'_, K>,
    operation: Operation,
    found: Option<Value>,
) -> Result<Reply, Refusal> {
    let value = found.ok_or_else(Refusal::not_found)?;
    match (value, operation) {
        (Value::Inline(value), Operation::Head) => Ok(Reply::now(Answer::value_withheld(value.len() as u64))),
        (Value::Inline(value), _) => Ok(Reply::now(Answer::value(value))),
        (Value::Large(LargeValue { bytes, .. }), Operation::Head) => {
            Ok(Reply::now(Answer::value_withheld(bytes)))
        }
        (Value::Large(LargeValue { bytes, pieces }), _) => large_value(call, bytes, pieces),
    }
}

/// Streams a value, once its first piece is read: what is wrong with that one can still be said.
fn large_value<K: KeyValue>(
    call: &Call<'_, K>,
    bytes: u64,
    pieces: Box<dyn Pieces>,
) -> Result<Reply, Refusal> {
    let permit = call.door.streams.enter(call.link.address(), 1)?;
    Ok(Reply::later(async move {
        permit.granted().await;
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { content_type: OCTETS, bytes: Some(bytes), first, end: b"", permit }))
    }))
}

/// `DELETE` of an entity.
pub(super) fn delete<K: KeyValue>(call: &Call<'_, K>, target: EntityTarget) -> Result<Reply, Refusal> {
    let deleted = call.service()?.delete(&call.context(target.replicas()), target);
    Ok(Reply::later(async move {
        deleted.await?;
        Ok(Outcome::Answer(Answer::empty(StatusCode::ACCEPTED)))
    }))
}
