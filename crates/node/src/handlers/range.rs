use std::rc::Rc;

use ladoga_http1::Version;
use ladoga_http1::server::Request;

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::coordinate;
use crate::http::{CHUNKED_RECORDS, LAST_CHUNK, OCTETS, PLAIN_RECORDS, RangeTarget, Refusal, Scope};
use crate::server::Streamed;
use crate::store::{LocalStore, Store};

/// `GET` of a range of entities.
pub(super) fn range<S: Store>(call: &Call<'_, S>, request: &Request) -> Result<Reply, Refusal> {
    let nodes = call.event_loop.node.cluster.as_ref().map_or(1, |cluster| cluster.nodes.len() as u32);
    let target = RangeTarget::parse(&request.uri, nodes).map_err(Refusal::bad_request)?;
    let is_chunked = request.version == Version::HTTP_11;
    match target.scope {
        Scope::Cluster => call.once_it_may_coordinate(move |call| stream(call, target, is_chunked)),
        // What it has itself, it has whoever else is there.
        Scope::Node => stream(call, target, is_chunked),
    }
}

fn stream<S: Store>(call: &Call<'_, S>, target: RangeTarget, is_chunked: bool) -> Result<Reply, Refusal> {
    let store = call.store()?;
    let permit = call.event_loop.node.streams.enter(call.link.address(), 1)?;
    let (format, end) = if is_chunked { (CHUNKED_RECORDS, LAST_CHUNK) } else { (PLAIN_RECORDS, &b""[..]) };
    let (event_loop, waited_ms) = (Rc::clone(call.event_loop), call.waited_ms);
    let is_of_cluster = target.scope == Scope::Cluster && event_loop.node.cluster.is_some();
    Ok(Reply::later(async move {
        permit.granted().await;
        let pieces = if is_of_cluster {
            coordinate::merge(event_loop, store, (target, waited_ms), format).await?
        } else {
            store.range(target.start, target.end, format)
        };
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { content_type: OCTETS, bytes: None, first, end, permit }))
    }))
}
