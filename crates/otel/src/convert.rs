use std::time::{Duration, SystemTime};

use ladoga_runtime::{AttributeValue, Span, SpanFacts, SpanKind};
use opentelemetry::trace::{self, SpanContext, SpanId, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

/// A span as it is exported.
pub(crate) fn exported(span: Span, scope: &InstrumentationScope) -> SpanData {
    let Span { context, parent, began_ns, ended_ns, facts } = span;
    let SpanFacts { name, kind, attributes, failed } = facts;
    let span_context = SpanContext::new(
        TraceId::from_bytes(context.trace_id),
        SpanId::from_bytes(context.span_id),
        TraceFlags::SAMPLED,
        false,
        TraceState::NONE,
    );
    SpanData {
        span_context,
        parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        // Who serves a request was asked by another process.
        parent_span_is_remote: parent.is_some() && kind == SpanKind::Server,
        span_kind: match kind {
            SpanKind::Server => trace::SpanKind::Server,
            SpanKind::Client => trace::SpanKind::Client,
            SpanKind::Internal => trace::SpanKind::Internal,
        },
        name,
        start_time: moment(began_ns),
        end_time: moment(ended_ns),
        attributes: attributes
            .into_iter()
            .map(|(name, value)| KeyValue::new(name, converted(value)))
            .collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: failed.map_or(Status::Unset, |description| Status::Error { description }),
        instrumentation_scope: scope.clone(),
    }
}

fn moment(since_1970_ns: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(since_1970_ns)
}

fn converted(value: AttributeValue) -> Value {
    match value {
        AttributeValue::Text(text) => Value::from(text),
        AttributeValue::Number(number) => Value::from(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::TraceContext;

    #[test]
    fn a_span_keeps_its_ids_its_times_and_what_it_says() {
        let context = TraceContext { trace_id: [1; 16], span_id: [2; 8] };
        let attributes = vec![("words", "two words".into()), ("number", 7_u64.into())];
        let facts = SpanFacts {
            attributes,
            failed: Some("503".into()),
            ..SpanFacts::new("PUT /v0/entity", SpanKind::Server)
        };
        let span = Span { context, parent: Some([3; 8]), began_ns: 1_500, ended_ns: 2_500, facts };
        let data = exported(span.clone(), &InstrumentationScope::default());
        assert_eq!(data.span_context.trace_id().to_bytes(), [1; 16]);
        assert_eq!(data.span_context.span_id().to_bytes(), [2; 8]);
        assert!(data.span_context.is_sampled() && data.parent_span_is_remote);
        assert_eq!(data.parent_span_id.to_bytes(), [3; 8]);
        assert_eq!(
            data.end_time.duration_since(data.start_time).expect("an order"),
            Duration::from_micros(1)
        );
        assert_eq!(data.attributes, [KeyValue::new("words", "two words"), KeyValue::new("number", 7)]);
        assert_eq!(data.status, Status::error("503"));
        let first = exported(Span { parent: None, ..span }, &InstrumentationScope::default());
        assert!(first.parent_span_id == SpanId::INVALID && !first.parent_span_is_remote);
    }
}
