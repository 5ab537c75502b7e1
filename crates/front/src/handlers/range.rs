use std::mem::take;
use std::rc::Rc;

use hyper::Uri;
use ladoga_service::{KeyValue, Scope};

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::connection::Streamed;
use crate::http::{CHUNKED_RECORDS, Head, LAST_CHUNK, PLAIN_RECORDS, RangeTarget, Refusal};

/// `GET` of a range of entities.
pub(super) fn range<K: KeyValue>(call: &Call<'_, K>, uri: &Uri, head: &mut Head) -> Result<Reply, Refusal> {
    let target = RangeTarget::parse(uri, call.door.nodes).map_err(Refusal::bad_request)?;
    match target.range.scope {
        Scope::Cluster => call.once_it_is_ready(head, move |call, head| stream(call, target, head)),
        // What it has itself, it has whoever else is there.
        Scope::Node => stream(call, target, head),
    }
}

fn stream<K: KeyValue>(call: &Call<'_, K>, target: RangeTarget, head: &mut Head) -> Result<Reply, Refusal> {
    let service = Rc::clone(call.service()?);
    let permit = call.door.streams.enter(call.link.address(), 1)?;
    let delivery = head.delivery();
    let (format, end) =
        if delivery.is_chunked { (CHUNKED_RECORDS, LAST_CHUNK) } else { (PLAIN_RECORDS, &b""[..]) };
    let context = call.context(target.replicas);
    let streamed = Streamed {
        head: delivery.records_head(call.door.core.clock.wall_ms()),
        first: None,
        end,
        keeps_alive: delivery.keeps_alive,
        permit: None,
    };
    Ok(Reply::later_or(take(head), async move |_| {
        permit.granted().await;
        let pieces = service.range(&context, target.range, format).await?;
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { first, permit: Some(permit), ..streamed }))
    }))
}
