//! Requests whose traces are recorded: what is noted of one while it is served, whichever door it came by.

use ladoga_model::{Replicas, TraceContext};
use ladoga_runtime::{Attributes, OpenSpan};
use xxhash_rust::xxh3::xxh3_64;

/// A request whose trace is recorded.
#[derive(Debug)]
pub(crate) struct Traced {
    pub(crate) span: OpenSpan,
    /// A hash of its key. Keys may be secrets: the collector of traces is not asked to keep them.
    key_hash: Option<u64>,
    replicas: Option<Replicas>,
}

impl Traced {
    pub(crate) const fn new(span: OpenSpan) -> Traced {
        Traced { span, key_hash: None, replicas: None }
    }

    /// It is about this key.
    pub(crate) fn note_key(&mut self, key: &[u8]) {
        self.key_hash = Some(xxh3_64(key));
    }

    /// It asks for these replicas: its span, for what they do.
    pub(crate) fn of_replicas(&mut self, replicas: Replicas) -> TraceContext {
        self.replicas = Some(replicas);
        self.span.context
    }

    /// What was noted.
    pub(crate) fn attributes(&self) -> Attributes {
        let key = self.key_hash.map(|hash| ("ladoga.key.hash", format!("{hash:016x}").into()));
        let replicas =
            self.replicas.map(|Replicas { ack, from }| ("ladoga.replicas", format!("{ack}/{from}").into()));
        key.into_iter().chain(replicas).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_runtime::AttributeValue;

    #[test]
    fn a_key_is_told_by_its_hash_only() {
        let context = TraceContext { trace_id: [1; 16], span_id: [2; 8] };
        let (traces, _queue) = ladoga_runtime::Traces::new(
            ladoga_runtime::Sampling { share: 1.0, follows: true },
            std::sync::Arc::new(ladoga_env::sim::SimClock::new()),
            std::sync::Arc::new(ladoga_env::sim::SimRng::new(1)),
        );
        let mut traced = Traced::new(traces.child(context, 0));
        assert!(traced.attributes().is_empty());
        traced.note_key(b"user:1");
        assert_eq!(traced.of_replicas(Replicas { ack: 2, from: 3 }).trace_id, [1; 16]);
        let hash = format!("{:016x}", xxh3_64(b"user:1"));
        let expected: Attributes = vec![
            ("ladoga.key.hash", AttributeValue::from(hash)),
            ("ladoga.replicas", AttributeValue::from("2/3".to_owned())),
        ];
        assert_eq!(traced.attributes(), expected);
    }
}
