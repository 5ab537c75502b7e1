use ladoga_model::TraceContext;
use ladoga_runtime::{OpenSpan, SpanFacts, SpanKind};

use super::error::PeerError;
use super::peer_link::PeerLink;
use crate::wire::{Answer, Request, TRACES_MAX};

/// A request whose trace is recorded, for as long as the peer owes its answer.
pub(super) struct AskedSpan {
    span: OpenSpan,
    name: &'static str,
}

impl PeerLink {
    /// A request is queued that is a part of this span, if it is one. The peer is told that its work is a part of the new one.
    #[inline]
    pub(super) fn begin_span(
        &self,
        of: Option<TraceContext>,
        request: &Request,
        number: u32,
    ) -> Option<Box<AskedSpan>> {
        of.and_then(|of| self.begin_part(of, request, number))
    }

    #[cold]
    fn begin_part(&self, of: TraceContext, request: &Request, number: u32) -> Option<Box<AskedSpan>> {
        let span = self.core.traces.as_ref()?.child_now(of);
        let mut unsent = self.unsent_traces.borrow_mut();
        // One turn has no more of them, as a rule. Of others, the peer records nothing.
        if unsent.len() < TRACES_MAX {
            unsent.push((number, span.context));
        }
        Some(Box::new(AskedSpan { span, name: request.name() }))
    }

    /// The peer has answered, or it is known that it will not.
    #[cold]
    pub(super) fn end_span(&self, asked: &AskedSpan, answer: Result<&Answer, &PeerError>) {
        let Some(traces) = &self.core.traces else { return };
        let failed = match answer {
            Ok(Answer::Refused(refusal)) => Some(refusal.to_string().into()),
            Ok(_) => None,
            Err(error) => Some(error.to_string().into()),
        };
        let attributes = vec![("ladoga.peer", self.view.url.clone().into())];
        let facts = SpanFacts { attributes, failed, ..SpanFacts::new(asked.name, SpanKind::Client) };
        traces.end_now(asked.span, facts);
    }
}
