use std::sync::atomic::Ordering;

use ladoga_http1::server::{BodyLength, Request};

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::http::{Answer, Refusal};
use crate::peers::{UPGRADE, report};
use crate::store::Store;

/// `GET` of the cluster: its nodes, and how they are as seen from here.
pub(super) fn cluster<S: Store>(call: &Call<'_, S>) -> Result<Reply, Refusal> {
    let text = match &call.event_loop.node.cluster {
        Some(cluster) => report(cluster),
        None => return Err(alone()),
    };
    Ok(Reply::now(Answer::content("application/json", text)))
}

/// `GET` by another node, which goes on in a protocol of their own.
pub(super) fn peer<S: Store>(call: &Call<'_, S>, request: &Request) -> Result<Reply, Refusal> {
    let Some(cluster) = &call.event_loop.node.cluster else { return Err(alone()) };
    if !request.fields("upgrade").any(|value| value == UPGRADE.as_bytes()) {
        return Err(Refusal::upgrade_required(UPGRADE));
    }
    if !matches!(request.body, BodyLength::Unsaid | BodyLength::Known(0)) {
        // It would be taken for what follows the upgrade.
        let reason = "the request to upgrade has a body, expected none";
        return Err(Refusal::bad_request(reason).and_close());
    }
    call.store()?;
    if cluster.sessions.is_full() {
        return Err(Refusal::over_capacity("as many connections of peers as there may be are open"));
    }
    Ok(Reply::Now(Outcome::Peer))
}

/// `POST` of a repair: this node takes over what the others have and it lacks. Answers its number.
pub(super) fn repair<S: Store>(call: &Call<'_, S>) -> Result<Reply, Refusal> {
    let Some(cluster) = &call.event_loop.node.cluster else { return Err(alone()) };
    call.store()?;
    let number = cluster.exchange.wanted.fetch_add(1, Ordering::AcqRel) + 1;
    Ok(Reply::now(Answer::accepted(format!("{number}\n"))))
}

fn alone() -> Refusal {
    Refusal::bad_request("this node is not of a cluster, expected one that was started with --cluster")
}
