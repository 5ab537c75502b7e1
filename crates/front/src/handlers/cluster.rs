use std::mem::take;

use ladoga_service::KeyValue;

use super::reply::{Outcome, Reply};
use super::service::Call;
use crate::http::{Head, Refusal};

/// `GET` of the cluster: its nodes, and how they are as seen from here.
pub(super) fn cluster<K: KeyValue>(call: &Call<'_, K>, head: &mut Head) -> Result<Reply, Refusal> {
    let cluster = call.door.cluster.as_ref().ok_or_else(alone)?;
    Ok(Reply::now(take(head).text("application/json", cluster.report())))
}

/// `GET` by another node, which goes on in a protocol of their own.
pub(super) fn peer<K: KeyValue>(call: &Call<'_, K>, head: &mut Head) -> Result<Reply, Refusal> {
    let cluster = call.door.cluster.as_ref().ok_or_else(alone)?;
    if !head.upgrades_to(cluster.protocol()) {
        return Err(Refusal::upgrade_required(cluster.protocol()));
    }
    if head.has_body() {
        // It would be taken for what follows the upgrade.
        let reason = "the request to upgrade has a body, expected none";
        return Err(Refusal::bad_request(reason).and_close());
    }
    call.service()?;
    if cluster.is_full() {
        return Err(Refusal::over_capacity("as many connections of peers as there may be are open"));
    }
    Ok(Reply::Now(Outcome::Peer))
}

/// `POST` of a repair: this node takes over what the others have and it lacks. Answers its number.
pub(super) fn repair<K: KeyValue>(call: &Call<'_, K>, head: &mut Head) -> Result<Reply, Refusal> {
    let cluster = call.door.cluster.as_ref().ok_or_else(alone)?;
    call.service()?;
    let number = cluster.request_repair();
    Ok(Reply::now(take(head).accepted(format!("{number}\n"))))
}

fn alone() -> Refusal {
    Refusal::bad_request("this node is not of a cluster, expected one that was started with --cluster")
}
