//! Many operations in one request, one a line.
//!
//! - `stream`: lines are served as they come, and answered in their order
//! - `window`: lines that are served at the same time
//! - `operation`: what one line does
//! - `atomic`: all lines happen, or none
//! - `audited`: what the audit log has of them

mod atomic;
mod audited;
mod operation;
mod stream;
mod window;

use std::rc::Rc;

use ladoga_http1::Version;
use ladoga_http1::server::{BodyLength, Request};
use ladoga_service::KeyValue;

use super::call::{Call, Outcome, Reply};
use crate::http::{BatchTarget, Framing, Refusal};
use crate::slow::waiting_ns;
use audited::BatchAudit;
use operation::LineCall;
use stream::BatchStream;

/// `POST` of a batch.
pub(super) fn batch<K: KeyValue>(call: &Call<'_, K>, request: &Request) -> Result<Reply, Refusal> {
    let target = BatchTarget::parse(request.query(), call.door.nodes).map_err(Refusal::bad_request)?;
    let framing = if request.version == Version::HTTP_11 { Framing::Chunked } else { Framing::Plain };
    let body = request.body;
    call.once_it_is_ready(move |call| {
        if target.is_atomic { atomic(call, target, body) } else { stream(call, target, framing) }
    })
}

fn stream<K: KeyValue>(call: &Call<'_, K>, target: BatchTarget, framing: Framing) -> Result<Reply, Refusal> {
    let (link, address) = (Rc::clone(call.link), call.link.address());
    let lines = LineCall {
        service: Rc::clone(call.service()?),
        door: Rc::clone(call.door),
        context: call.batch_context(target),
        address,
        caller: link.caller().map(|caller| caller.clone()),
        is_paid: true,
        audit: BatchAudit::of(&call.door.access, &call.door.core, &link),
    };
    // It takes as much memory as a range.
    let permit = call.door.streams.enter(address, 1)?;
    Ok(Reply::later(async move {
        let ((), waited_ns) = waiting_ns(&*lines.door.core.clock, permit.granted()).await;
        link.asked.waited(|waits| waits.admission_ns += waited_ns);
        Ok(Outcome::Exchange(Box::pin(BatchStream::new(lines, link, framing, permit).run())))
    }))
}

fn atomic<K: KeyValue>(call: &Call<'_, K>, target: BatchTarget, body: BodyLength) -> Result<Reply, Refusal> {
    let service = Rc::clone(call.service()?);
    service.admit_together()?;
    if let BodyLength::Known(bytes) = body {
        atomic::check_length(bytes).map_err(Refusal::and_close)?;
    }
    let context = call.batch_context(target);
    let (core, link) = (Rc::clone(&call.door.core), Rc::clone(call.link));
    let audit = BatchAudit::of(&call.door.access, &core, &link);
    Ok(Reply::later(async move {
        let answer = atomic::carry_out(&*service, &context, (&core, &link), audit.as_ref()).await?;
        Ok(Outcome::Answer(answer))
    }))
}
