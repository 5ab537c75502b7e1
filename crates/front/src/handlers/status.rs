use ladoga_service::KeyValue;

use super::service::{Call, Reply};
use crate::admin::{Exposition, loop_metrics};
use crate::http::{Answer, Refusal};
use ladoga_http1::server::Request;

/// `GET` of the status: whether the node serves, and why not where it does not.
pub(super) fn status<K: KeyValue>(call: &Call<'_, K>) -> Result<Reply, Refusal> {
    match call.service()?.failure() {
        Some(reason) => Err(Refusal::unavailable(reason)),
        None => Ok(Reply::now(Answer::content("text/plain; charset=utf-8", "serving\n"))),
    }
}

/// `GET` of what the node counts. Answered in every stage: it is how one finds out what is wrong.
pub(super) fn metrics<K: KeyValue>(call: &Call<'_, K>, request: &Request) -> Result<Reply, Refusal> {
    let door = call.door;
    let mut metrics = loop_metrics(&door.metrics);
    metrics.extend(door.opening.get().into_iter().flat_map(|service| service.metrics()));
    metrics.extend(door.cluster.iter().flat_map(|cluster| cluster.metrics()));
    let exposition = Exposition::preferred(request.fields("accept"));
    let text = exposition.write(metrics).map_err(Refusal::internal)?;
    Ok(Reply::now(Answer::content(exposition.content_type(), text)))
}
