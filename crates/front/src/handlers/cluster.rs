use ladoga_http1::server::{BodyLength, Request};
use ladoga_service::KeyValue;

use super::service::{Call, Outcome, Reply};
use crate::http::{Answer, Refusal};

/// `GET` of the cluster: its nodes, and how they are as seen from here.
pub(super) fn cluster<K: KeyValue>(call: &Call<'_, K>) -> Result<Reply, Refusal> {
    let cluster = call.door.cluster.as_ref().ok_or_else(alone)?;
    Ok(Reply::now(Answer::content("application/json", cluster.report())))
}

/// `GET` by another node, which goes on in a protocol of their own.
pub(super) fn peer<K: KeyValue>(call: &Call<'_, K>, request: &Request) -> Result<Reply, Refusal> {
    let cluster = call.door.cluster.as_ref().ok_or_else(alone)?;
    if !request.fields("upgrade").any(|value| value == cluster.protocol().as_bytes()) {
        return Err(Refusal::upgrade_required(cluster.protocol()));
    }
    if !matches!(request.body, BodyLength::Unsaid | BodyLength::Known(0)) {
        // It would be taken for what follows the upgrade.
        let reason = "the upgrade request has a body; expected none";
        return Err(Refusal::bad_request(reason).and_close());
    }
    call.service()?;
    if cluster.is_full() {
        return Err(Refusal::over_capacity("the limit of connections from peers is reached"));
    }
    Ok(Reply::Now(Outcome::Peer))
}

/// `POST` of a repair: this node takes over what the others have and it lacks. Answers its number.
pub(super) fn repair<K: KeyValue>(call: &Call<'_, K>) -> Result<Reply, Refusal> {
    let cluster = call.door.cluster.as_ref().ok_or_else(alone)?;
    call.service()?;
    let number = cluster.request_repair();
    Ok(Reply::now(Answer::accepted(format!("{number}\n"))))
}

fn alone() -> Refusal {
    Refusal::bad_request("this node is not part of a cluster; to use this path, start it with --cluster")
}
