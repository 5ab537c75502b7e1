use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_model::Stamp;
use ladoga_runtime::Operation;
use ladoga_service::{KeyValue, LargeValue, Lookup, Pieces, StoredCell, Value};

use super::call::{Call, Outcome, Reply};
use crate::connection::Streamed;
use crate::http::{Answer, EntityTarget, OCTETS, Refusal};

/// `GET` and `HEAD` of an entity: answered at once if memory can tell.
pub(super) fn get<K: KeyValue>(
    call: &Call<'_, K>,
    operation: Operation,
    target: &EntityTarget,
) -> Result<Reply, Refusal> {
    match call.service()?.get(&call.context_of(target), target.key()) {
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
    found: Option<StoredCell>,
) -> Result<Reply, Refusal> {
    let Some(StoredCell { stamp, value: Some(value) }) = found else { return Err(Refusal::not_found()) };
    let expires = expiry(stamp);
    let now = |answer: Answer| Ok(Reply::now(Answer { expires: expires.clone(), ..answer }));
    match (value, operation) {
        (Value::Inline(value), Operation::Head) => now(Answer::value_withheld(value.len() as u64)),
        (Value::Inline(value), _) => now(Answer::value(value)),
        (Value::Large(LargeValue { bytes, .. }), Operation::Head) => now(Answer::value_withheld(bytes)),
        (Value::Large(LargeValue { bytes, pieces }), _) => large_value(call, (bytes, expires), pieces),
    }
}

/// When a value expires, as its answer says it; none if it never does.
fn expiry(stamp: Stamp) -> Option<Box<str>> {
    (stamp.expires_at_ms != 0).then(|| stamp.expires_at_ms.to_string().into())
}

/// Streams a value, once its first piece is read: what is wrong with that one can still be said.
fn large_value<K: KeyValue>(
    call: &Call<'_, K>,
    (bytes, expires): (u64, Option<Box<str>>),
    pieces: Box<dyn Pieces>,
) -> Result<Reply, Refusal> {
    let permit = call.door.streams.enter(call.link.address(), 1)?;
    Ok(Reply::later(async move {
        permit.granted().await;
        let first = pieces.next().await?;
        let bytes = Some(bytes);
        Ok(Outcome::Stream(Streamed { content_type: OCTETS, bytes, expires, first, end: b"", permit }))
    }))
}

/// `DELETE` of an entity.
pub(super) fn delete<K: KeyValue>(call: &Call<'_, K>, target: EntityTarget) -> Result<Reply, Refusal> {
    let deleted = call.service()?.delete(&call.context_of(&target), target);
    Ok(Reply::later(async move {
        deleted.await?;
        Ok(Outcome::Answer(Answer::empty(StatusCode::ACCEPTED)))
    }))
}
