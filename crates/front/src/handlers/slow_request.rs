use ladoga_http1::StatusCode;
use ladoga_http1::server::{BodyLength, Request};
use ladoga_runtime::Operation;

use super::call::Outcome;
use crate::connection::Link;
use crate::door::Door;
use crate::http::names;
use crate::slow::SlowRequest;

/// How many bytes a request announces; `None` if it does not say.
pub(crate) const fn announced_bytes(request: &Request) -> Option<u64> {
    match request.body {
        BodyLength::Known(bytes) => Some(bytes),
        BodyLength::Unsaid => Some(0),
        BodyLength::Chunked => None,
    }
}

/// How much is sent as the body of an answer, if that is known when its head is written.
pub(crate) fn known_bytes(link: &Link, outcome: &Outcome) -> Option<u64> {
    match outcome {
        _ if link.http().has_no_body() => Some(0),
        Outcome::Answer(answer) => Some(answer.body.length()),
        Outcome::Stream(streamed) => streamed.bytes,
        Outcome::Follow(_) | Outcome::Exchange(_) | Outcome::Peer(_) => None,
    }
}

/// Has the log tell of a request that was slow, unless it takes as long as its client asked for.
#[cold]
pub(super) fn tell_slow<K>(
    door: &Door<K>,
    link: &Link,
    (operation, status): (Option<Operation>, StatusCode),
    (received_bytes, sent_bytes): (Option<u64>, Option<u64>),
    (total_ns, now_ns): (u64, u64),
) {
    if let Some(Operation::Profile | Operation::Changes) = operation {
        return;
    }
    door.core.metrics.slow_request();
    let (method, route) = operation.map_or(("none", "none"), names);
    door.core.slow.tell(
        now_ns,
        &SlowRequest {
            method,
            route,
            about: link.asked.about(),
            status: status.as_str(),
            received_bytes,
            sent_bytes,
            total_ns,
            waits: Some(link.asked.waits()),
            rest: rest(door, link, (operation, status)),
        },
    );
}

/// What a request does when it waits for nothing else.
pub(super) fn rest<K>(
    door: &Door<K>,
    link: &Link,
    (operation, status): (Option<Operation>, StatusCode),
) -> &'static str {
    match operation {
        // Its answer begins with that of its first lines, while others may be still to come.
        Some(Operation::Batch) if status == StatusCode::OK => door.writes_to(),
        // What did not come whole is not done.
        _ if link.http().is_waiting_for_body() => "node",
        // Nor are lines that say what cannot be, or may not.
        Some(Operation::Batch)
            if matches!(
                status,
                StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::PAYLOAD_TOO_LARGE
            ) =>
        {
            "node"
        }
        Some(Operation::Get | Operation::Head | Operation::Range) => door.reads_from(),
        Some(
            Operation::Put | Operation::Delete | Operation::Increment | Operation::Expire | Operation::Batch,
        ) => door.writes_to(),
        _ => "node",
    }
}
