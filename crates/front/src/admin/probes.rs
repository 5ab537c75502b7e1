use ladoga_service::KeyValue;

use super::status::unexplained;
use crate::auth::Unauthorized;
use crate::door::Door;
use crate::http::{Answer, Refusal, is_verbose};

const TEXT: &str = "text/plain; charset=utf-8";

/// `GET` of the liveness probe, for a supervisor that restarts a node that hangs. It succeeds at every stage of the node's life
/// if an event loop answers: a restart mends no peer and no disk.
pub(crate) fn live() -> Answer {
    Answer::content(TEXT, "live\n")
}

/// `GET` of the readiness probe, for a load balancer that sends requests only while they would be served; it says why not.
///
/// Who has no token, on a node with tokens, is told that it is not ready, and not why.
pub(crate) fn ready<K: KeyValue>(door: &Door<K>, query: &[u8], is_trusted: bool) -> Result<Answer, Refusal> {
    let is_verbose = is_verbose(query).map_err(Refusal::bad_request)?;
    if is_verbose && !is_trusted {
        return Err(Refusal::unauthorized(Unauthorized::Nothing));
    }
    let obstacles = door.service()?.obstacles();
    match (obstacles.is_empty(), is_verbose) {
        (true, true) => Ok(Answer::content(TEXT, ["ready\n", &remarks(door)].concat())),
        (true, false) => Ok(Answer::content(TEXT, "ready\n")),
        (false, _) if !is_trusted => Err(unexplained()),
        (false, true) => Err(Refusal::unavailable_for(obstacles)),
        (false, false) => Err(Refusal::unavailable(obstacles.join("; "))),
    }
}

/// What an operator should look at, although the node serves: one line each.
fn remarks<K>(door: &Door<K>) -> String {
    let tokens = door.access.guard.as_ref().and_then(|guard| guard.problem()).map(|problem| {
        format!("the file of tokens cannot be used, and the tokens before it count: {problem}\n")
    });
    let tls =
        door.access.tls.as_ref().and_then(|tls| tls.problem()).map(|problem| {
            format!("the files of TLS cannot be used, and those before them count: {problem}\n")
        });
    tokens.into_iter().chain(tls).collect()
}
