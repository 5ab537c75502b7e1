use std::rc::Rc;

use super::session::Session;
use ladoga_local::store::Store;
use ladoga_model::TraceContext;
use ladoga_runtime::{OpenSpan, SpanFacts, SpanKind};

/// A request that is being served. What it holds of its connection's memory is free again when it is dropped.
pub(super) struct Asked<S: Store> {
    session: Rc<Session<S>>,
    pub(super) number: u32,
    bytes: usize,
    /// If its trace is recorded, with what it asks for.
    span: Option<(OpenSpan, &'static str)>,
}

impl<S: Store> Asked<S> {
    /// A request that may hold so many bytes, for which there is room.
    pub(super) fn new(session: &Rc<Session<S>>, number: u32, bytes: usize) -> Asked<S> {
        session.held_bytes.set(session.held_bytes.get() + bytes);
        Asked { session: Rc::clone(session), number, bytes, span: None }
    }

    /// The same as a part of a span of the peer, if it is one.
    pub(super) fn part_of(mut self, of: Option<TraceContext>, name: &'static str) -> Asked<S> {
        let traces = self.session.replica.core.traces.as_ref();
        self.span = traces.zip(of).map(|(traces, of)| (traces.child_now(of), name));
        self
    }

    /// Its span, for what is done for it.
    pub(super) fn trace(&self) -> Option<TraceContext> {
        self.span.map(|(span, _)| span.context)
    }
}

/// The answer is about to be sent, or is not worth one any more.
impl<S: Store> Drop for Asked<S> {
    fn drop(&mut self) {
        if let (Some((span, name)), Some(traces)) = (self.span, &self.session.replica.core.traces) {
            traces.end_now(span, SpanFacts::new(name, SpanKind::Server));
        }
        self.session.held_bytes.set(self.session.held_bytes.get() - self.bytes);
    }
}
