use std::rc::Rc;

use ladoga_http1::StatusCode;

use super::slow_request::tell_slow;
use super::traced_request::end_traced;
use crate::connection::Link;
use crate::door::Door;
use crate::slow::BegunRequest;

/// The head of an answer is about to be written: the figures have it, and the log of slow requests and the traces, if it belongs there.
pub(crate) fn tell_answered<K>(
    door: &Rc<Door<K>>,
    link: &Link,
    request: BegunRequest,
    (status, sent_bytes): (StatusCode, Option<u64>),
    is_at_once: bool,
) {
    let (core, operation) = (&door.core, request.operation);
    let now_ns = core.clock.monotonic_ns();
    let total_ns = now_ns.saturating_sub(request.started_ns);
    core.metrics.answered(operation, status.as_u16(), total_ns);
    if !core.slow.is_slow(total_ns) && core.traces.is_none() {
        return;
    }
    if link.http().is_waiting_for_body() {
        link.asked.waited(|waits| waits.note_rest_as_body(total_ns));
    }
    // What is missing has not been received.
    let received_bytes =
        request.announced_bytes.map(|bytes| bytes.saturating_sub(link.http().missing_bytes().unwrap_or(0)));
    let bytes = (received_bytes, sent_bytes);
    if core.slow.is_slow(total_ns) {
        tell_slow(door, link, (operation, status), bytes, (total_ns, now_ns));
    }
    if let Some(traces) = &core.traces {
        end_traced((traces, door), link, (operation, status), bytes, (now_ns, is_at_once));
    }
}

/// The same of the last answer of a connection, which no handler made: it is that of the request in turn, if one waits for its answer.
pub(crate) fn tell_last<K>(door: &Rc<Door<K>>, link: &Link, status: StatusCode, sent_bytes: u64) {
    let has_begun_answer = link.http().has_begun_answer();
    match link.asked.waiting().filter(|_| !has_begun_answer) {
        Some(request) => tell_answered(door, link, request, (status, Some(sent_bytes)), false),
        None => door.core.metrics.refused_before_routing(status.as_u16()),
    }
}
