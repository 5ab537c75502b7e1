use super::reply::Reply;
use super::service::Call;
use crate::http::{Answer, Refusal};
use crate::metrics::report;
use crate::store::Store;

/// `GET` of the status: whether the node serves, and why not where it does not.
pub(super) fn status<S: Store>(call: &Call<'_, S>) -> Result<Reply, Refusal> {
    call.store()?;
    match call.event_loop.node.store.get().and_then(|store| store.failure()) {
        Some(reason) => Err(Refusal::unavailable(reason)),
        None => Ok(Reply::now(Answer::content("text/plain; charset=utf-8", "serving\n"))),
    }
}

/// `GET` of what the node counts. Answered in every stage: it is how one finds out what is wrong.
pub(super) fn metrics<S: Store>(call: &Call<'_, S>) -> Reply {
    let node = &call.event_loop.node;
    let mut samples = node.store.get().map(|store| store.statistics()).unwrap_or_default();
    samples.extend(node.cluster.iter().flat_map(|cluster| cluster.samples()));
    let text = report(&node.metrics, &samples);
    Reply::now(Answer::content("text/plain; version=0.0.4; charset=utf-8", text))
}
