use std::mem::take;
use std::rc::Rc;

use hyper::Uri;

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::coordinate;
use crate::http::{CHUNKED_RECORDS, Head, LAST_CHUNK, PLAIN_RECORDS, RangeTarget, Refusal, Scope};
use crate::server::Streamed;
use crate::store::{LocalStore, Store};

/// `GET` of a range of entities.
pub(super) fn range<S: Store>(call: &Call<'_, S>, uri: &Uri, head: &mut Head) -> Result<Reply, Refusal> {
    let nodes = call.event_loop.node.cluster.as_ref().map_or(1, |cluster| cluster.nodes.len() as u32);
    let target = RangeTarget::parse(uri, nodes).map_err(Refusal::bad_request)?;
    match target.scope {
        Scope::Cluster => call.once_it_may_coordinate(head, move |call, head| stream(call, target, head)),
        // What it has itself, it has whoever else is there.
        Scope::Node => stream(call, target, head),
    }
}

fn stream<S: Store>(call: &Call<'_, S>, target: RangeTarget, head: &mut Head) -> Result<Reply, Refusal> {
    let store = call.store()?;
    let permit = call.event_loop.node.streams.enter(call.link.address(), 1)?;
    let delivery = head.delivery();
    let (format, end) =
        if delivery.is_chunked { (CHUNKED_RECORDS, LAST_CHUNK) } else { (PLAIN_RECORDS, &b""[..]) };
    let (event_loop, waited_ms) = (Rc::clone(call.event_loop), call.waited_ms);
    let is_of_cluster = target.scope == Scope::Cluster && event_loop.node.cluster.is_some();
    let streamed = Streamed {
        head: delivery.records_head(call.event_loop.core.clock.wall_ms()),
        first: None,
        end,
        keeps_alive: delivery.keeps_alive,
        permit: None,
    };
    Ok(Reply::later_or(take(head), async move |_| {
        permit.granted().await;
        let pieces = if is_of_cluster {
            coordinate::merge(event_loop, store, (target, waited_ms), format).await?
        } else {
            store.range(target.start, target.end, format)
        };
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { first, permit: Some(permit), ..streamed }))
    }))
}
