use std::mem::take;
use std::rc::Rc;

use hyper::StatusCode;
use hyper::body::Incoming;
use ladoga_model::VALUE_BYTES_MAX;
use ladoga_service::KeyValue;

use super::reply::{Outcome, Reply};
use super::service::Call;
use super::upload::upload;
use super::value::{VALUE_BYTES_UNCOUNTED, discard_arrived, read_value};
use crate::http::{EntityTarget, Head, Refusal};

/// A body of up to this size that has arrived by the time it is refused is read away: that costs both sides less than
/// another connection does.
const REFUSED_BODY_BYTES_MAX: u64 = 64 << 10;

/// `PUT` of an entity. What this node can refuse by itself is refused before the value is read.
pub(super) fn put<K: KeyValue>(
    call: &Call<'_, K>,
    target: EntityTarget,
    body: Incoming,
    head: &mut Head,
) -> Result<Reply, Refusal> {
    let bytes = value_bytes(head, &body)?;
    let service = match admit(call, &target, bytes) {
        Ok(service) => Rc::clone(service),
        Err(refusal) => return refuse(call, refusal, body, bytes, head),
    };
    if bytes >= service.upload_bytes_min() {
        return upload(call, service, target, body, head).map_err(Refusal::and_close);
    }
    let context = call.context(target.replicas());
    let (core, link) = (Rc::clone(&call.door.core), Rc::clone(call.link));
    Ok(Reply::later_or(take(head), async move |head| {
        let (value, room) = read_value(&core, &link, body, bytes).await?;
        service.put(&context, target, value, room).await?;
        Ok(Outcome::Answer(take(head).empty(StatusCode::CREATED)))
    }))
}

fn admit<'c, K: KeyValue>(
    call: &Call<'c, K>,
    target: &EntityTarget,
    bytes: u64,
) -> Result<&'c Rc<K>, Refusal> {
    let service = call.service()?;
    service.admit_put(&call.context(target.replicas()), target.key(), bytes)?;
    // Room is taken once the value arrives. Where there would be none, it need not be sent.
    if bytes > VALUE_BYTES_UNCOUNTED && bytes < service.upload_bytes_min() {
        call.door.core.bodies.check(call.link.address(), bytes)?;
    }
    Ok(service)
}

/// Refuses a value. Where nothing of it is missing that the client is about to send, its connection can be kept.
fn refuse<K: KeyValue>(
    call: &Call<'_, K>,
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
