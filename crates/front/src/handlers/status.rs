use ladoga_service::KeyValue;

use super::service::{Call, Reply};
use crate::http::{Answer, Refusal};
use crate::metrics::report;

/// `GET` of the status: whether the node serves, and why not where it does not.
pub(super) fn status<K: KeyValue>(call: &Call<'_, K>) -> Result<Reply, Refusal> {
    match call.service()?.failure() {
        Some(reason) => Err(Refusal::unavailable(reason)),
        None => Ok(Reply::now(Answer::content("text/plain; charset=utf-8", "serving\n"))),
    }
}

/// `GET` of what the node counts. Answered in every stage: it is how one finds out what is wrong.
pub(super) fn metrics<K: KeyValue>(call: &Call<'_, K>) -> Reply {
    let door = call.door;
    let mut samples = door.opening.get().map(|service| service.statistics()).unwrap_or_default();
    samples.extend(door.cluster.iter().flat_map(|cluster| cluster.samples()));
    let text = report(&door.metrics, &samples);
    Reply::now(Answer::content("text/plain; version=0.0.4; charset=utf-8", text))
}
