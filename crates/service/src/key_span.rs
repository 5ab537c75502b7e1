use bytes::Bytes;

/// Keys that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySpan {
    /// The first key; empty for the first one that there is.
    pub start: Bytes,
    /// The key before which it ends.
    pub end: Option<Bytes>,
    /// Whether the last key comes first.
    pub is_reverse: bool,
}
