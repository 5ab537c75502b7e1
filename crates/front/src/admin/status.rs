use ladoga_http1::server::Request;
use ladoga_service::KeyValue;

use super::{Exposition, loop_metrics, span_metric};
use crate::auth::tls_metrics;
use crate::door::Door;
use crate::http::{Answer, Refusal};

/// `GET` of the status: whether the node serves requests, and if not, why, for those who are trusted.
pub(crate) fn status<K: KeyValue>(door: &Door<K>, is_trusted: bool) -> Result<Answer, Refusal> {
    match door.service()?.failure() {
        Some(_) if !is_trusted => Err(unexplained()),
        Some(reason) => Err(Refusal::unavailable(reason)),
        None => Ok(Answer::content("text/plain; charset=utf-8", "serving\n")),
    }
}

/// For those who have no token: that it does not serve, and not why.
pub(super) fn unexplained() -> Refusal {
    Refusal::unavailable("this node does not serve requests now; with a token, you are told why")
}

/// `GET` of the metrics. Answered at every stage of the node's life: an operator needs them to find out what is wrong.
pub(crate) fn metrics<K: KeyValue>(door: &Door<K>, request: &Request) -> Result<Answer, Refusal> {
    let mut metrics = loop_metrics(&door.metrics);
    metrics.extend(door.opening.get().into_iter().flat_map(|service| service.metrics()));
    metrics.extend(door.access.guard.iter().flat_map(|guard| guard.metrics()));
    metrics.extend(door.access.audit.iter().flat_map(|audit| audit.metrics()));
    metrics.extend(door.access.tls.iter().flat_map(|tls| tls_metrics(tls)));
    metrics.extend(door.cluster.iter().flat_map(|cluster| cluster.metrics()));
    metrics.extend(door.core.traces.iter().map(|traces| span_metric(traces)));
    let exposition = Exposition::preferred(request.fields("accept"));
    let text = exposition.write(metrics).map_err(Refusal::internal)?;
    Ok(Answer::content(exposition.content_type(), text))
}
