use std::rc::Rc;

use ladoga_http1::Version;
use ladoga_http1::server::Request;
use ladoga_service::{KeyValue, Piece, Pieces, Scope};

use super::call::{Call, Outcome, Reply};
use crate::connection::{Link, SILENCE_MS_MAX, Streamed};
use crate::http::{Framing, NDJSON, OCTETS, RangeTarget, Refusal, TEXT, Telling, prefers_ndjson};
use crate::slow::waiting_ns;

/// `GET` of a range of entities.
pub(super) fn range<K: KeyValue>(call: &Call<'_, K>, request: &Request) -> Result<Reply, Refusal> {
    let target = RangeTarget::parse(request.query(), call.door.nodes).map_err(Refusal::bad_request)?;
    call.check_span(&target.range.span)?;
    let telling = Telling {
        framing: if request.version == Version::HTTP_11 { Framing::Chunked } else { Framing::Plain },
        is_json: prefers_ndjson(request.fields("accept")),
        has_values: target.has_values,
        is_count: target.is_count,
    };
    match target.range.scope {
        Scope::Cluster => call.once_it_is_ready(move |call| stream(call, target, telling)),
        // A range of this node is answered by this node alone, also in a cluster.
        Scope::Node => stream(call, target, telling),
    }
}

fn stream<K: KeyValue>(call: &Call<'_, K>, target: RangeTarget, telling: Telling) -> Result<Reply, Refusal> {
    let service = Rc::clone(call.service()?);
    let permit = call.door.streams.enter(call.link.address(), 1)?;
    let (context, core) = (call.context(target.replicas), Rc::clone(&call.door.core));
    let link = Rc::clone(call.link);
    Ok(Reply::later(async move {
        let ((), waited_ns) = waiting_ns(&*core.clock, permit.granted()).await;
        link.asked.waited(|waits| waits.admission_ns += waited_ns);
        let pieces = service.range(&context, target.range, telling.format()).await?;
        let first = first_piece(&link, pieces).await?;
        Ok(Outcome::Stream(Box::new(Streamed {
            field: None,
            content_type: match telling {
                Telling { is_json: true, .. } => NDJSON,
                Telling { is_count: true, .. } => TEXT,
                Telling { .. } => OCTETS,
            },
            etag: None,
            bytes: None,
            expires: None,
            first,
            alive: telling.alive(),
            permit,
        })))
    }))
}

/// What is found first, as long as a client can be left without a sign: what is wrong with it can still be said.
async fn first_piece(link: &Link, mut pieces: Box<dyn Pieces>) -> Result<Option<Piece>, Refusal> {
    let began_ms = link.now_ms();
    loop {
        match pieces.next().await? {
            Some((bytes, rest)) if bytes.is_empty() && link.now_ms() - began_ms < SILENCE_MS_MAX => {
                pieces = rest;
                tokio::task::yield_now().await;
            }
            first => return Ok(first),
        }
    }
}
