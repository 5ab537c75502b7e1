use std::mem::take;

use hyper::Uri;

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::http::{CHUNKED_RECORDS, Head, LAST_CHUNK, PLAIN_RECORDS, RangeTarget, Refusal};
use crate::server::Streamed;
use crate::store::{LocalStore, Store};

/// `GET` of a range of entities.
pub(super) fn range<S: Store>(call: &Call<'_, S>, uri: &Uri, head: &mut Head) -> Result<Reply, Refusal> {
    let target = RangeTarget::parse(uri).map_err(Refusal::bad_request)?;
    let store = call.store()?;
    let permit = call.event_loop.node.streams.enter()?;
    let delivery = head.delivery();
    let (format, end) =
        if delivery.is_chunked { (CHUNKED_RECORDS, LAST_CHUNK) } else { (PLAIN_RECORDS, &b""[..]) };
    let pieces = store.range(target.start, target.end, format);
    let streamed = Streamed {
        head: delivery.records_head(call.event_loop.core.clock.wall_ms()),
        first: None,
        end,
        keeps_alive: delivery.keeps_alive,
        permit: Some(permit),
    };
    Ok(Reply::later_or(take(head), async move |_| {
        let first = pieces.next().await?;
        Ok(Outcome::Stream(Streamed { first, ..streamed }))
    }))
}
