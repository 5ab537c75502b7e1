use ladoga_model::{Ttl, TtlError};

/// How long a value is to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// So long.
    Limited(Ttl),
    /// For ever.
    Unlimited,
}

impl Lifetime {
    pub(super) fn parse(text: &[u8]) -> Result<Lifetime, TtlError> {
        if text == b"none" { Ok(Lifetime::Unlimited) } else { Ttl::parse(text).map(Lifetime::Limited) }
    }

    /// How long, if it ends.
    pub(crate) const fn ttl(self) -> Option<Ttl> {
        match self {
            Lifetime::Limited(ttl) => Some(ttl),
            Lifetime::Unlimited => None,
        }
    }
}
