use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_http1::server::BodyLength;
use ladoga_model::{VALUE_BYTES_MAX, Version};
use ladoga_runtime::Permit;
use ladoga_service::{KeyValue, Precondition};

use super::call::{Call, Outcome, Reply};
use super::upload::upload;
use super::value::{VALUE_BYTES_UNCOUNTED, read_value};
use crate::http::{Answer, EntityTarget, Refusal};
use crate::slow::waiting_ns;

/// `PUT` of an entity. What this node can refuse by itself is refused before the value is read.
pub(super) fn put<K: KeyValue>(
    call: &Call<'_, K>,
    (target, bytes): (EntityTarget, u64),
    precondition: Precondition,
) -> Result<Reply, Refusal> {
    let service = Rc::clone(admit(call, &target, bytes)?);
    // It pays for all of it as soon as it is read: else very many could begin before the first of them is paid for. What is refused
    // before pays nothing.
    call.link.charge_pieces(false);
    let context = call.write_context(&target, precondition);
    if bytes >= service.upload_bytes_min() {
        return upload(call, service, (context, target), bytes).map_err(Refusal::and_close);
    }
    if let Some(value) = call.link.take_arrived_body() {
        call.link.charge(bytes);
        // As for most: nothing is kept here but the write itself. A precondition is decided with it, and not before: the client does not
        // wait to hear of it.
        let written = service.put(&context, target, value, None::<Permit>);
        return Ok(Reply::later(async move { Ok(created(written.await?)) }));
    }
    let (core, link) = (Rc::clone(&call.door.core), Rc::clone(call.link));
    Ok(Reply::later(async move {
        if !context.precondition.is_none() {
            service.admit_conditional(&context, target.key(), bytes).await?;
        }
        link.charge(bytes);
        let (read, waited_ns) = waiting_ns(&*core.clock, read_value(&core, &link, bytes)).await;
        // What it waited for room while it was read was counted as that.
        link.asked.waited(|waits| waits.body_ns = waited_ns.saturating_sub(waits.admission_ns));
        let (value, room) = read?;
        Ok(created(service.put(&context, target, value, room).await?))
    }))
}

fn created(version: Version) -> Outcome {
    Outcome::Answer(Answer::empty(StatusCode::CREATED).with_version(version))
}

fn admit<'c, K: KeyValue>(
    call: &Call<'c, K>,
    target: &EntityTarget,
    bytes: u64,
) -> Result<&'c Rc<K>, Refusal> {
    let service = call.service()?;
    service.admit_put(&call.context(target.replicas()), target.key(), bytes)?;
    // Room is taken once the value arrives. If there would be none, it need not be sent.
    if bytes > VALUE_BYTES_UNCOUNTED && bytes < service.upload_bytes_min() {
        call.door.core.bodies.check(call.link.address(), bytes)?;
    }
    Ok(service)
}

/// The length of the value that the request announces.
pub(super) fn value_bytes(body: BodyLength) -> Result<u64, Refusal> {
    match body {
        BodyLength::Unsaid | BodyLength::Chunked => Err(Refusal::length_required()),
        BodyLength::Known(bytes) if bytes > VALUE_BYTES_MAX => Err(Refusal::value_too_large(bytes)),
        BodyLength::Known(bytes) => Ok(bytes),
    }
}
