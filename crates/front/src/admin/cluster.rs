use ladoga_http1::server::{BodyLength, Request};
use ladoga_service::KeyValue;

use crate::auth::Unauthorized;
use crate::connection::Link;
use crate::door::Door;
use crate::http::{Answer, Refusal};

/// The number of the event loop of the node that asks.
const LOOP_FIELD: &str = "ladoga-loop";

/// `GET` of the cluster: its nodes, and how they are as seen from here.
pub(crate) fn cluster<K: KeyValue>(door: &Door<K>) -> Result<Answer, Refusal> {
    let cluster = door.cluster.as_ref().ok_or_else(|| alone(door))?;
    Ok(Answer::content("application/json", cluster.report()))
}

/// `GET` by another node, which may go on in the protocol of peers if this is not refused. Answers the number of its event loop; those
/// before this field was new say none.
pub(crate) fn admit_peer<K: KeyValue>(
    door: &Door<K>,
    link: &Link,
    request: &Request,
) -> Result<Option<usize>, Refusal> {
    let cluster = door.cluster.as_ref().ok_or_else(|| alone(door))?;
    let mut has_proof = door.access.guard.is_none();
    if let Some(tls) = door.access.tls.as_ref().filter(|_| cluster.is_secure()) {
        let checked = link.check_peer(tls, &cluster.hosts());
        checked.map_err(|why| {
            tls.figures.peer_refused();
            if door.core.admit_refusal_line() {
                tracing::warn!(address = %link.address(), "refused a peer: {why}");
            }
            Refusal::forbidden(why)
        })?;
        has_proof = true;
    }
    let is_admitted = cluster.admits(request.authorization());
    // A node with tokens lets no stranger do by another door what needs a token here.
    if !is_admitted.unwrap_or(has_proof) {
        return Err(Refusal::unauthorized(Unauthorized::Peer));
    }
    if !request.fields("upgrade").any(|value| value == cluster.protocol().as_bytes()) {
        return Err(Refusal::upgrade_required(cluster.protocol()));
    }
    if !matches!(request.body, BodyLength::Unsaid | BodyLength::Known(0)) {
        // It would be taken for what follows the upgrade.
        let reason = "the upgrade request has a body; expected none";
        return Err(Refusal::bad_request(reason).and_close());
    }
    door.service()?;
    if cluster.is_full() {
        return Err(Refusal::over_capacity("the limit of connections from peers is reached"));
    }
    let number =
        request.fields(LOOP_FIELD).next().and_then(|number| str::from_utf8(number).ok()?.parse().ok());
    Ok(number)
}

/// `POST` of a repair: this node takes over what the others have and it lacks. Answers its number.
pub(crate) fn repair<K: KeyValue>(door: &Door<K>) -> Result<Answer, Refusal> {
    let cluster = door.cluster.as_ref().ok_or_else(|| alone(door))?;
    door.service()?;
    let number = cluster.request_repair();
    Ok(Answer::accepted(format!("{number}\n")))
}

fn alone<K: KeyValue>(door: &Door<K>) -> Refusal {
    if let Some(why) = door.opening.get().and_then(|service| service.no_cluster()) {
        return Refusal::from(why);
    }
    Refusal::bad_request("this node is not part of a cluster; to use this path, start it with --cluster")
}
