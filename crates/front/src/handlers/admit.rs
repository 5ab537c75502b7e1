use ladoga_http1::server::Request;

use crate::auth::{Need, Unauthorized};
use crate::connection::Link;
use crate::door::Door;
use crate::http::Refusal;

/// Refuses a request of someone who may not ask for it, before anything else of it is looked at. From then on the connection knows
/// who asks.
pub(super) fn admit<K>(door: &Door<K>, link: &Link, request: &Request, need: Need) -> Result<(), Refusal> {
    let access = &*door.access;
    if access.guard.is_some() {
        return admit_by_token(door, link, request, need);
    }
    match need {
        // What a node lives by is asked for under many names, and tells nothing. A page cannot ask for another protocol.
        Need::Nothing | Need::Peer => Ok(()),
        Need::Token | Need::Scopes(_) | Need::AnyScope(_) => {
            access.hosts.check(request).map_err(Refusal::forbidden)
        }
    }
}

fn admit_by_token<K>(door: &Door<K>, link: &Link, request: &Request, need: Need) -> Result<(), Refusal> {
    link.forget_caller();
    let Some(guard) = &door.access.guard else { return Ok(()) };
    if need == Need::Peer {
        return Ok(());
    }
    let core = &door.core;
    let known = match request.authorization() {
        Some(authorization) => link.log_in(guard, authorization, core.clock.wall_ms()),
        None => Err(Unauthorized::Nothing),
    };
    match (need, known) {
        (Need::Nothing, _) => return Ok(()),
        (_, Ok(())) => {}
        (_, Err(unauthorized)) => {
            if unauthorized == Unauthorized::Nothing {
                guard.refused();
            }
            return Err(Refusal::unauthorized(unauthorized));
        }
    }
    let Some(caller) = link.caller() else { return Err(Refusal::unauthorized(Unauthorized::Nothing)) };
    match need {
        Need::Scopes(needed) => caller.check(needed).map_err(Refusal::denied)?,
        Need::AnyScope(enough) => caller.check_any(enough).map_err(Refusal::denied)?,
        Need::Nothing | Need::Token | Need::Peer => {}
    }
    // What is announced may never be read. Who has used up its bytes is refused all the same.
    link.charge_pieces(true);
    caller.admit(core.clock.monotonic_ns(), 0).map_err(Refusal::throttled)
}
