use std::rc::Rc;

use ladoga_http1::Version;
use ladoga_http1::server::Request;
use ladoga_service::{KeyValue, Scope};

use super::call::{Call, Outcome, Reply};
use crate::connection::Streamed;
use crate::http::{CHUNKED_RECORDS, LAST_CHUNK, OCTETS, PLAIN_RECORDS, RangeTarget, Refusal};

/// `GET` of a range of entities.
pub(super) fn range<K: KeyValue>(call: &Call<'_, K>, request: &Request) -> Result<Reply, Refusal> {
    let target = RangeTarget::parse(&request.uri, call.door.nodes).map_err(Refusal::bad_request)?;
    let is_chunked = request.version == Version::HTTP_11;
    match target.range.scope {
        Scope::Cluster => call.once_it_is_ready(move |call| stream(call, target, is_chunked)),
        // A range of this node is answered by this node alone, also in a cluster.
        Scope::Node => stream(call, target, is_chunked),
    }
}

fn stream<K: KeyValue>(call: &Call<'_, K>, target: RangeTarget, is_chunked: bool) -> Result<Reply, Refusal> {
    let service = Rc::clone(call.service()?);
    let permit = call.door.streams.enter(call.link.address(), 1)?;
    let (format, end) = if is_chunked { (CHUNKED_RECORDS, LAST_CHUNK) } else { (PLAIN_RECORDS, &b""[..]) };
    let context = call.context(target.replicas);
    Ok(Reply::later(async move {
        permit.granted().await;
        let pieces = service.range(&context, target.range, format).await?;
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed {
            content_type: OCTETS,
            etag: None,
            bytes: None,
            expires: None,
            first,
            end,
            permit,
        }))
    }))
}
