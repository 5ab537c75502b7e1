use std::rc::Rc;

use ladoga_http1::StatusCode;
use ladoga_http1::server::Request;
use ladoga_model::{TraceContext, TraceParent};
use ladoga_runtime::{Operation, SpanFacts, SpanKind, Traces};

use super::slow_request::rest;
use crate::connection::Link;
use crate::door::Door;
use crate::http::names;
use crate::slow::WaitTimes;
use crate::traced::Traced;

/// A request begins whose sender was let in. A `traceparent` that is malformed is as good as none.
pub(super) fn begin_traced(traces: &Traces, link: &Link, request: &Request, started_ns: u64) {
    let parent = request.traceparent().and_then(TraceParent::parse);
    if let Some(span) = traces.begin(parent, started_ns) {
        link.asked.begin_traced(Traced::new(span));
    }
}

/// The head of its answer is about to be written: ends its span, if it has one.
pub(super) fn end_traced<K>(
    (traces, door): (&Traces, &Rc<Door<K>>),
    link: &Link,
    of: (Option<Operation>, StatusCode),
    bytes: (Option<u64>, Option<u64>),
    at: (u64, bool),
) {
    let (operation, status) = of;
    if let (Some(traced), Some(operation)) = (link.asked.end_traced(), operation) {
        end((traces, door), link, (operation, status), bytes, (at, &traced));
    }
}

#[cold]
fn end<K>(
    (traces, door): (&Traces, &Rc<Door<K>>),
    link: &Link,
    (operation, status): (Operation, StatusCode),
    (received_bytes, sent_bytes): (Option<u64>, Option<u64>),
    ((ended_ns, is_at_once), traced): ((u64, bool), &Traced),
) {
    let span = traced.span;
    // What machines ask for all the time is recorded only if they want it to be.
    if !span.has_parent() && !is_of_data(operation) {
        return;
    }
    let done = if is_at_once { "node" } else { rest(door, link, (Some(operation), status)) };
    end_parts(traces, (span.context, span.began_ns), (&link.asked.waits(), done), ended_ns);
    let (method, route) = names(operation);
    let mut attributes = traced.attributes();
    attributes.push(("http.request.method", method.into()));
    attributes.push(("http.route", route.into()));
    attributes.push(("http.response.status_code", u64::from(status.as_u16()).into()));
    let sizes = [("http.request.body.size", received_bytes), ("http.response.body.size", sent_bytes)];
    attributes.extend(sizes.into_iter().filter_map(|(name, bytes)| Some((name, bytes?.into()))));
    let failed = status.is_server_error().then(|| status.as_str().to_owned().into());
    let name = format!("{method} {route}").into();
    traces.end(span, ended_ns, SpanFacts { name, kind: SpanKind::Server, attributes, failed });
}

/// Spans of what the log of slow requests tells apart, one behind the other. What other nodes do has spans of its own.
fn end_parts(
    traces: &Traces,
    (of, began_ns): (TraceContext, u64),
    (waits, done): (&WaitTimes, &'static str),
    ended_ns: u64,
) {
    let mut at_ns = began_ns;
    let mut part = |name, duration_ns: u64| {
        if duration_ns > 0 {
            let end_ns = (at_ns + duration_ns).min(ended_ns);
            traces.end(traces.child(of, at_ns), end_ns, SpanFacts::new(name, SpanKind::Internal));
            at_ns = end_ns;
        }
    };
    part("ready", waits.ready_ns);
    part("admission", waits.admission_ns);
    part("body", waits.body_ns);
    if !matches!(done, "node" | "replicas") {
        part(done, ended_ns.saturating_sub(began_ns));
    }
}

/// Whether it is about what is stored.
const fn is_of_data(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Get
            | Operation::Head
            | Operation::Put
            | Operation::Delete
            | Operation::Increment
            | Operation::Expire
            | Operation::Range
            | Operation::Changes
            | Operation::Batch
    )
}
