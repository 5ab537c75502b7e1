use std::borrow::Cow;

use ladoga_model::TraceContext;

/// Which side of a call a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// It serves a request of somebody else.
    Server,
    /// It asks another node.
    Client,
    /// Neither.
    Internal,
}

/// The value of an attribute. It never has a key of the store, a value or a secret in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// Words.
    Text(Cow<'static, str>),
    /// A number.
    Number(i64),
}

impl From<&'static str> for AttributeValue {
    fn from(text: &'static str) -> AttributeValue {
        AttributeValue::Text(Cow::Borrowed(text))
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> AttributeValue {
        AttributeValue::Text(Cow::Owned(text))
    }
}

impl From<u64> for AttributeValue {
    fn from(number: u64) -> AttributeValue {
        AttributeValue::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// Attributes, by their names.
pub type Attributes = Vec<(&'static str, AttributeValue)>;

/// A span that has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenSpan {
    /// Its own ids, which its parts and other nodes are given.
    pub context: TraceContext,
    /// The span that it is a part of.
    pub(super) parent: Option<[u8; 8]>,
    /// When it began, by the monotonic clock.
    pub began_ns: u64,
}

impl OpenSpan {
    /// Whether it is a part of another span.
    pub const fn has_parent(&self) -> bool {
        self.parent.is_some()
    }
}

/// What is known of a span once it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanFacts {
    /// What is done.
    pub name: Cow<'static, str>,
    /// Which side of a call it is.
    pub kind: SpanKind,
    /// Anything else.
    pub attributes: Attributes,
    /// Why it failed, if it did.
    pub failed: Option<Cow<'static, str>>,
}

impl SpanFacts {
    /// A span that has ended well, of which there is nothing else to say.
    pub const fn new(name: &'static str, kind: SpanKind) -> SpanFacts {
        SpanFacts { name: Cow::Borrowed(name), kind, attributes: Vec::new(), failed: None }
    }
}

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its own ids.
    pub context: TraceContext,
    /// The span that it is a part of.
    pub parent: Option<[u8; 8]>,
    /// When it began, in nanoseconds since 1970.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// What it was.
    pub facts: SpanFacts,
}
