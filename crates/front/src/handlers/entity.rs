use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_model::{Cell, Stamp, Ttl};
use ladoga_runtime::Operation;
use ladoga_service::{KeyValue, LargeValue, Lookup, Pieces, Precondition, StoredCell, Value};

use super::call::{Call, Outcome, Reply};
use crate::connection::Streamed;
use crate::http::{Answer, Conditions, ETag, EntityTarget, OCTETS, ReadVerdict, Refusal, TEXT};
use crate::slow::waiting_ns;

/// `GET` and `HEAD` of an entity: answered at once if memory can tell.
pub(super) fn get<K: KeyValue>(
    call: &Call<'_, K>,
    operation: Operation,
    target: &EntityTarget,
    conditions: Conditions,
) -> Result<Reply, Refusal> {
    match call.service()?.get(&call.context(target.replicas()), target.key()) {
        Lookup::Now(found) => with_cell(call, (operation, &conditions), found?),
        Lookup::Later(found) => {
            let (door, link) = (Rc::clone(call.door), Rc::clone(call.link));
            Ok(Reply::later(async move {
                let call = Call { door: &door, link: &link, waited_ms: 0 };
                with_cell(&call, (operation, &conditions), found.await?)?.outcome().await
            }))
        }
    }
}

fn with_cell<K: KeyValue>(
    call: &Call<'_, K>,
    (operation, conditions): (Operation, &Conditions),
    found: Option<StoredCell>,
) -> Result<Reply, Refusal> {
    let version = found.as_ref().map(|cell| cell.stamp.version);
    let of_value = version.filter(|_| found.as_ref().is_some_and(|cell| cell.value.is_some()));
    match conditions.of_read(of_value) {
        ReadVerdict::Send => {}
        ReadVerdict::Failed => {
            let reason = "If-Match is not met by what is stored under the key";
            return Err(Refusal::precondition_failed(reason, version));
        }
        ReadVerdict::NotModified => {
            let answer = Answer::empty(StatusCode::NOT_MODIFIED);
            return Ok(Reply::now(Answer { etag: of_value.map(ETag::from), ..answer }));
        }
    }
    let Some(Cell { stamp, value: Some(value) }) = found else { return Err(Refusal::not_found(version)) };
    let (etag, expires) = (Some(ETag::from(stamp.version)), expiry(stamp));
    let answer = match (value, operation) {
        (Value::Inline(value), Operation::Head) => Answer::value_withheld(value.len() as u64),
        (Value::Inline(value), _) => Answer::value(value),
        (Value::Large(LargeValue { bytes, .. }), Operation::Head) => Answer::value_withheld(bytes),
        (Value::Large(LargeValue { bytes, pieces }), _) => {
            return large_value(call, (bytes, pieces), (etag, expires));
        }
    };
    Ok(Reply::now(Answer { etag, expires, ..answer }))
}

/// When a value expires, for a header field of the answer; none if it never does.
fn expiry(stamp: Stamp) -> Option<Box<str>> {
    (stamp.expires_at_ms != 0).then(|| stamp.expires_at_ms.to_string().into())
}

/// Streams a value, once its first piece is read: until then an error can still be answered with its own status.
fn large_value<K: KeyValue>(
    call: &Call<'_, K>,
    (bytes, pieces): (u64, Box<dyn Pieces>),
    (etag, expires): (Option<ETag>, Option<Box<str>>),
) -> Result<Reply, Refusal> {
    let permit = call.door.streams.enter(call.link.address(), 1)?;
    let (core, link) = (Rc::clone(&call.door.core), Rc::clone(call.link));
    Ok(Reply::later(async move {
        let ((), waited_ns) = waiting_ns(&*core.clock, permit.granted()).await;
        link.asked.waited(|waits| waits.admission_ns += waited_ns);
        let first = pieces.next().await?;
        let bytes = Some(bytes);
        Ok(Outcome::Stream(Box::new(Streamed {
            content_type: OCTETS,
            etag,
            bytes,
            expires,
            field: None,
            first,
            alive: b"",
            permit,
        })))
    }))
}

/// `DELETE` of an entity.
pub(super) fn delete<K: KeyValue>(
    call: &Call<'_, K>,
    target: EntityTarget,
    precondition: Precondition,
) -> Result<Reply, Refusal> {
    let context = call.write_context(&target, precondition);
    let deleted = call.service()?.delete(&context, target);
    Ok(Reply::later(async move {
        let version = deleted.await?;
        Ok(Outcome::Answer(Answer::empty(StatusCode::ACCEPTED).with_version(version)))
    }))
}

/// `POST` of an entity with another time to live.
pub(super) fn expire<K: KeyValue>(
    call: &Call<'_, K>,
    (target, ttl): (EntityTarget, Option<Ttl>),
    precondition: Precondition,
) -> Result<Reply, Refusal> {
    let context = call.write_context(&target, precondition);
    let changed = call.service()?.expire(&context, target, ttl);
    Ok(Reply::later(async move {
        let stamp = changed.await?;
        let answer = Answer { expires: expiry(stamp), ..Answer::empty(StatusCode::OK) };
        Ok(Outcome::Answer(answer.with_version(stamp.version)))
    }))
}

/// `POST` of an entity: adds to a number.
pub(super) fn increment<K: KeyValue>(
    call: &Call<'_, K>,
    (target, by): (EntityTarget, i64),
    precondition: Precondition,
) -> Result<Reply, Refusal> {
    let context = call.write_context(&target, precondition);
    let added = call.service()?.increment(&context, target, by);
    Ok(Reply::later(async move {
        let (sum, stamp) = added.await?;
        let answer = Answer { expires: expiry(stamp), ..Answer::content(TEXT, sum.to_string()) };
        Ok(Outcome::Answer(answer.with_version(stamp.version)))
    }))
}
