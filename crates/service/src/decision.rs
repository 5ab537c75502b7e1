//! What a request that depends on what is there comes to: pure functions of the newest cell, the same for a node on its own and
//! for a cluster. What time it is, its coordinator says, once.

use ladoga_model::{Cell, CellMark};

use crate::{Error, Precondition, incremented};

/// What a client sees of a cell at this time: a value that has expired is a deletion to it.
const fn seen<B, L>(cell: &Cell<B, L>, now_ms: u64) -> CellMark {
    CellMark { stamp: cell.stamp, is_tombstone: cell.is_absent(now_ms) }
}

/// Whether a key may be written, or deleted.
pub fn may_write<B, L>(
    precondition: &Precondition,
    newest: Option<&Cell<B, L>>,
    now_ms: u64,
) -> Result<(), Error> {
    precondition.check(newest.map(|newest| seen(newest, now_ms)))
}

/// A number that takes the place of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum {
    /// What it is.
    pub number: i64,
    /// When it expires, in milliseconds since 1970: as the one before it; 0 if it never does.
    pub expires_at_ms: u64,
}

/// What is under a key, plus `by`: see [`incremented`].
pub fn sum<B: AsRef<[u8]>, L>(
    precondition: &Precondition,
    newest: Option<&Cell<B, L>>,
    by: i64,
    now_ms: u64,
) -> Result<Sum, Error> {
    may_write(precondition, newest, now_ms)?;
    let newest = newest.filter(|newest| !newest.is_absent(now_ms));
    let number = incremented(newest.and_then(|newest| newest.value.as_ref()), by)?;
    Ok(Sum { number, expires_at_ms: newest.map_or(0, |newest| newest.stamp.expires_at_ms) })
}

/// Whether a value may get another expiry: there has to be one. What there is not, no condition can be about (RFC 9110, 13.2.1).
pub fn may_expire<B, L>(
    precondition: &Precondition,
    newest: Option<&Cell<B, L>>,
    now_ms: u64,
) -> Result<(), Error> {
    if newest.is_none_or(|newest| newest.is_absent(now_ms)) {
        return Err(Error::NotFound { current: newest.map(|newest| newest.stamp.version) });
    }
    may_write(precondition, newest, now_ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::{Stamp, Value, Version};

    type TestCell = Cell<&'static [u8], u64>;

    const NOW_MS: u64 = 1_000;
    const VERSION: Version = Version { timestamp: 7, node: 0 };

    fn cell(value: Option<&'static [u8]>, expires_at_ms: u64) -> TestCell {
        Cell { stamp: Stamp { expires_at_ms, ..Stamp::new(VERSION) }, value: value.map(Value::Inline) }
    }

    /// Nothing, a deletion, what has expired with its bytes and without them.
    fn absent() -> [Option<TestCell>; 4] {
        [None, Some(cell(None, 0)), Some(cell(Some(b"5"), NOW_MS)), Some(cell(None, NOW_MS))]
    }

    #[test]
    fn what_has_expired_is_nothing() {
        for newest in absent() {
            let newest = newest.as_ref();
            let current = newest.map(|newest| newest.stamp.version);
            assert_eq!(may_write(&Precondition::IfNoneMatchAny, newest, NOW_MS), Ok(()));
            let failed = Err(Error::PreconditionFailed { current });
            assert_eq!(may_write(&Precondition::IfMatch([VERSION].into()), newest, NOW_MS), failed);
            let sum = sum(&Precondition::None, newest, 3, NOW_MS);
            assert_eq!(sum, Ok(Sum { number: 3, expires_at_ms: 0 }));
            for precondition in [Precondition::None, Precondition::IfMatchAny, Precondition::Never] {
                assert_eq!(may_expire(&precondition, newest, NOW_MS), Err(Error::NotFound { current }));
            }
        }
    }

    #[test]
    fn what_is_there_is_added_to_and_may_get_another_expiry_if_the_condition_is_true() {
        let newest = cell(Some(b"5"), NOW_MS + 1);
        let if_match = Precondition::IfMatch([VERSION].into());
        assert_eq!(
            sum(&if_match, Some(&newest), 3, NOW_MS),
            Ok(Sum { number: 8, expires_at_ms: NOW_MS + 1 })
        );
        assert_eq!(may_expire(&if_match, Some(&newest), NOW_MS), Ok(()));
        let large: TestCell = Cell { value: Some(Value::Large(1 << 20)), ..newest };
        assert_eq!(may_expire(&Precondition::None, Some(&large), NOW_MS), Ok(()));
        let failed = Error::PreconditionFailed { current: Some(VERSION) };
        assert_eq!(sum(&Precondition::IfNoneMatchAny, Some(&newest), 3, NOW_MS), Err(failed.clone()));
        assert_eq!(may_expire(&Precondition::IfNoneMatchAny, Some(&newest), NOW_MS), Err(failed));
    }
}
