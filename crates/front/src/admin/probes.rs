use ladoga_http1::Uri;
use ladoga_service::KeyValue;

use crate::door::Door;
use crate::http::{Answer, Refusal, is_verbose};

const TEXT: &str = "text/plain; charset=utf-8";

/// `GET` of the liveness probe, for a supervisor that restarts a node that hangs. It succeeds at every stage of the node's life
/// if an event loop answers: a restart mends no peer and no disk.
pub(crate) fn live() -> Answer {
    Answer::content(TEXT, "live\n")
}

/// `GET` of the readiness probe, for a load balancer that sends requests only while they would be served; it says why not.
pub(crate) fn ready<K: KeyValue>(door: &Door<K>, uri: &Uri) -> Result<Answer, Refusal> {
    let is_verbose = is_verbose(uri).map_err(Refusal::bad_request)?;
    let obstacles = door.service()?.obstacles();
    match (obstacles.is_empty(), is_verbose) {
        (true, _) => Ok(Answer::content(TEXT, "ready\n")),
        (false, true) => Err(Refusal::unavailable_for(obstacles)),
        (false, false) => Err(Refusal::unavailable(obstacles.join("; "))),
    }
}
