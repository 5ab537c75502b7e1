use bytes::Bytes;

/// The body of an answer that is in memory.
pub(crate) enum Body {
    /// No bytes.
    Empty,
    /// These bytes.
    Full(Bytes),
    /// What `HEAD` has instead of this many bytes.
    Withheld(u64),
}

impl Body {
    /// The bytes that are sent.
    pub(crate) fn content(&self) -> &[u8] {
        if let Body::Full(bytes) = self { bytes } else { &[] }
    }

    /// How many bytes there are.
    pub(crate) fn length(&self) -> u64 {
        if let Body::Withheld(bytes) = self { *bytes } else { self.content().len() as u64 }
    }
}
