use ladoga_http1::Uri;
use ladoga_service::KeyValue;

use crate::door::Door;
use crate::http::{Answer, Refusal, is_verbose};

const TEXT: &str = "text/plain; charset=utf-8";

/// `GET` by whoever would start the node again if it hung. That an event loop answers is all that it says, in every stage: no
/// peer and no disk gets better by another start.
pub(crate) fn live() -> Answer {
    Answer::content(TEXT, "live\n")
}

/// `GET` by whoever sends it requests only while it would serve them; and why it would not.
pub(crate) fn ready<K: KeyValue>(door: &Door<K>, uri: &Uri) -> Result<Answer, Refusal> {
    let is_verbose = is_verbose(uri).map_err(Refusal::bad_request)?;
    let obstacles = door.service()?.obstacles();
    match (obstacles.is_empty(), is_verbose) {
        (true, _) => Ok(Answer::content(TEXT, "ready\n")),
        (false, true) => Err(Refusal::unavailable_for(obstacles)),
        (false, false) => Err(Refusal::unavailable(obstacles.join("; "))),
    }
}
