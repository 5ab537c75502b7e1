use ladoga_model::TraceContext;
use ladoga_runtime::{LoopContext, OpenSpan, SpanFacts, SpanKind};

use super::error::PeerError;
use crate::wire::{Answer, Request};

/// A request whose trace is recorded, for as long as the peer owes its answer.
pub(super) struct AskedSpan {
    span: OpenSpan,
    name: &'static str,
}

impl AskedSpan {
    /// A request is queued that is a part of this span; none if nothing is recorded.
    #[cold]
    pub(super) fn begin(core: &LoopContext, of: TraceContext, request: &Request) -> Option<Box<AskedSpan>> {
        let span = core.traces.as_ref()?.child_now(of);
        Some(Box::new(AskedSpan { span, name: request.name() }))
    }

    /// What the peer is told that its work is a part of.
    pub(super) const fn context(&self) -> TraceContext {
        self.span.context
    }

    /// The peer has answered, or it is known that it will not.
    #[cold]
    pub(super) fn end(self, core: &LoopContext, url: &str, answer: Result<&Answer, &PeerError>) {
        let Some(traces) = &core.traces else { return };
        let failed = match answer {
            Ok(Answer::Refused(refusal)) => Some(refusal.to_string().into()),
            Ok(_) => None,
            Err(error) => Some(error.to_string().into()),
        };
        let attributes = vec![("ladoga.peer", url.to_owned().into())];
        let facts = SpanFacts { attributes, failed, ..SpanFacts::new(self.name, SpanKind::Client) };
        traces.end_now(self.span, facts);
    }
}
