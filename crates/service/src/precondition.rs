use std::sync::Arc;

use ladoga_model::{CellMark, Version};

use crate::Error;

/// What has to be true of the newest cell of a key for a write to happen. A deletion, and a value that has expired, are as if
/// nothing were there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// There is a value with one of these versions.
    IfMatch(Arc<[Version]>),
    /// There is a value.
    IfMatchAny,
    /// There is no value.
    IfNoneMatchAny,
    /// There is a value and there is none: the two conditions were given together.
    Never,
}

impl Precondition {
    /// Whether it asks for nothing.
    pub const fn is_none(&self) -> bool {
        matches!(self, Precondition::None)
    }

    /// Fails unless it is true of the newest cell.
    pub fn check(&self, newest: Option<CellMark>) -> Result<(), Error> {
        let value = newest.filter(|newest| !newest.is_tombstone).map(|newest| newest.stamp.version);
        let is_true = match self {
            Precondition::None => true,
            Precondition::IfMatch(versions) => value.is_some_and(|value| versions.contains(&value)),
            Precondition::IfMatchAny => value.is_some(),
            Precondition::IfNoneMatchAny => value.is_none(),
            Precondition::Never => false,
        };
        if is_true {
            return Ok(());
        }
        Err(Error::PreconditionFailed { current: newest.map(|newest| newest.stamp.version) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::Stamp;

    fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 0 }
    }

    fn mark(timestamp: u64, is_tombstone: bool) -> CellMark {
        CellMark { stamp: Stamp::new(version(timestamp)), is_tombstone }
    }

    #[test]
    fn a_deletion_is_as_if_nothing_were_there() {
        let states = [None, Some(mark(7, true)), Some(mark(7, false)), Some(mark(8, false))];
        let cases = [
            (Precondition::None, [true, true, true, true]),
            (Precondition::IfMatch([version(7), version(9)].into()), [false, false, true, false]),
            (Precondition::IfMatch([].into()), [false; 4]),
            (Precondition::IfMatchAny, [false, false, true, true]),
            (Precondition::IfNoneMatchAny, [true, true, false, false]),
            (Precondition::Never, [false; 4]),
        ];
        for (precondition, expected) in cases {
            let found = states.map(|newest| precondition.check(newest).is_ok());
            assert_eq!(found, expected, "{precondition:?}");
        }
    }

    #[test]
    fn what_is_there_instead_is_told() {
        let failed = |newest| Precondition::Never.check(newest);
        assert_eq!(failed(None), Err(Error::PreconditionFailed { current: None }));
        for is_tombstone in [true, false] {
            let current = Some(version(7));
            assert_eq!(failed(Some(mark(7, is_tombstone))), Err(Error::PreconditionFailed { current }));
        }
    }
}
