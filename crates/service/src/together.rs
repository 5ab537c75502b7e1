//! Writes of several keys that happen all or none: what they come to, as a pure function of the newest cells of their keys.

use bytes::Bytes;
use ladoga_model::{Cell, Stamp, Ttl, Value};

use crate::{Error, NUMBER_BYTES_MAX, Precondition, Sum, may_write, sum};

/// One of several writes that happen all or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyWrite {
    /// Its key.
    pub key: Bytes,
    /// What has to be true for it, and so for all of them.
    pub precondition: Precondition,
    /// What it does.
    pub change: KeyChange,
}

/// What becomes of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyChange {
    /// It gets this value, for so long if that ends.
    Put(Bytes, Option<Ttl>),
    /// It loses its value.
    Delete,
    /// This is added to its number.
    Increment(i64),
}

impl KeyChange {
    /// The most bytes of a value that it writes.
    pub fn value_bytes_max(&self) -> u64 {
        match self {
            KeyChange::Put(value, _) => value.len() as u64,
            KeyChange::Delete => 0,
            KeyChange::Increment(_) => NUMBER_BYTES_MAX as u64,
        }
    }
}

/// What one of them came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyWritten {
    /// Its version, and when it expires.
    pub stamp: Stamp,
    /// The sum, if it added to a number.
    pub sum: Option<i64>,
}

/// Why none of them was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotWritten {
    /// Which one could not be.
    pub index: usize,
    /// Why not.
    pub error: Error,
}

/// What became of writes that happen all or none.
pub type Together = Result<Vec<KeyWritten>, NotWritten>;

/// A cell to be written: the number of its key, and the cell.
type NumberedCell<L> = (usize, Cell<Bytes, L>);

/// What writes come to, one after the other, if these are the newest cells of their keys; `number` is which of the keys a write is
/// about, and `stamp` gives it its version. Answers the cells to be written in their order, none if one of the writes fails.
pub fn decide_together<L, M, S: FnOnce() -> Stamp>(
    writes: impl IntoIterator<Item = (usize, KeyWrite, S)>,
    mut newest: Vec<Option<Cell<Bytes, L>>>,
    now_ms: u64,
) -> (Vec<NumberedCell<M>>, Together) {
    let (mut cells, mut written) = (Vec::new(), Vec::new());
    for (index, (number, KeyWrite { precondition, change, .. }, stamp)) in writes.into_iter().enumerate() {
        let before = newest[number].as_ref();
        let decided = decide(&precondition, change, before, now_ms);
        let (value, expires_at_ms, sum) = match decided {
            Ok(decided) => decided,
            Err(error) => return (Vec::new(), Err(NotWritten { index, error })),
        };
        let stamp = Stamp { expires_at_ms, ..stamp() };
        newest[number] = Some(Cell { stamp, value: value.clone().map(Value::Inline) });
        cells.push((number, Cell { stamp, value: value.map(Value::Inline) }));
        written.push(KeyWritten { stamp, sum });
    }
    (cells, Ok(written))
}

/// The value that a key gets, if any, when that expires, and the sum, if it is one.
fn decide<L>(
    precondition: &Precondition,
    change: KeyChange,
    newest: Option<&Cell<Bytes, L>>,
    now_ms: u64,
) -> Result<(Option<Bytes>, u64, Option<i64>), Error> {
    match change {
        KeyChange::Put(value, ttl) => {
            may_write(precondition, newest, now_ms)?;
            Ok((Some(value), ttl.map_or(0, |ttl| ttl.ends_ms(now_ms)), None))
        }
        KeyChange::Delete => {
            may_write(precondition, newest, now_ms)?;
            Ok((None, 0, None))
        }
        KeyChange::Increment(by) => {
            let Sum { number, expires_at_ms } = sum(precondition, newest, by, now_ms)?;
            Ok((Some(Bytes::from(number.to_string())), expires_at_ms, Some(number)))
        }
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::Version;

    use super::*;

    const NOW_MS: u64 = 1_000;

    fn version(timestamp: u64) -> Version {
        Version { timestamp, node: 0 }
    }

    fn write(precondition: Precondition, change: KeyChange) -> KeyWrite {
        KeyWrite { key: Bytes::from_static(b"key"), precondition, change }
    }

    fn put(value: &'static str) -> KeyChange {
        KeyChange::Put(Bytes::from_static(value.as_bytes()), None)
    }

    /// Of two keys, of which the first has a number, in version 7.
    fn decided(writes: Vec<(usize, KeyWrite)>) -> (Vec<NumberedCell<u64>>, Together) {
        let number = Cell { stamp: Stamp::new(version(7)), value: Some(Value::Inline(Bytes::from("40"))) };
        let newest: Vec<Option<Cell<Bytes, u64>>> = vec![Some(number), None];
        let stamped = writes
            .into_iter()
            .zip(8..)
            .map(|((number, write), timestamp)| (number, write, move || Stamp::new(version(timestamp))));
        decide_together(stamped, newest, NOW_MS)
    }

    #[test]
    fn each_write_sees_those_before_it() {
        let (cells, written) = decided(vec![
            (0, write(Precondition::IfMatch([version(7)].into()), KeyChange::Increment(2))),
            (1, write(Precondition::IfNoneMatchAny, put("1"))),
            (1, write(Precondition::IfMatchAny, KeyChange::Increment(1))),
            (0, write(Precondition::IfMatch([version(8)].into()), KeyChange::Delete)),
        ]);
        let values = cells.iter().map(|(number, cell)| {
            let value = cell.value.as_ref().map(|value| match value {
                Value::Inline(bytes) => str::from_utf8(bytes).expect("digits").to_owned(),
                Value::Large(_) => unreachable!("nothing is that long"),
            });
            (*number, cell.stamp.version.timestamp, value)
        });
        let expected = [(0, 8, Some("42")), (1, 9, Some("1")), (1, 10, Some("2")), (0, 11, None)];
        let expected = expected.map(|(number, version, value)| (number, version, value.map(str::to_owned)));
        assert_eq!(values.collect::<Vec<_>>(), expected);
        let sums: Vec<_> = written.expect("all of them").iter().map(|written| written.sum).collect();
        assert_eq!(sums, [Some(42), None, Some(2), None]);
    }

    #[test]
    fn one_that_fails_leaves_nothing() {
        let stale = Precondition::IfMatch([version(6)].into());
        let (cells, written) = decided(vec![
            (1, write(Precondition::None, put("x"))),
            (0, write(stale, KeyChange::Delete)),
            (1, write(Precondition::None, put("y"))),
        ]);
        assert!(cells.is_empty());
        let error = Error::PreconditionFailed { current: Some(version(7)) };
        assert_eq!(written, Err(NotWritten { index: 1, error }));
        let (cells, written) = decided(vec![
            (1, write(Precondition::None, put("x"))),
            (1, write(Precondition::None, KeyChange::Increment(1))),
        ]);
        assert!(cells.is_empty());
        let refused = written.expect_err("x is no number");
        assert!(matches!(refused, NotWritten { index: 1, error: Error::NotANumber { .. } }), "{refused:?}");
    }

    #[test]
    fn a_number_keeps_its_expiry_and_a_value_gets_its_own() {
        let ttl = Ttl::of_ms(5);
        let (cells, _) = decided(vec![
            (1, write(Precondition::None, KeyChange::Put(Bytes::from("3"), ttl))),
            (1, write(Precondition::None, KeyChange::Increment(1))),
            (1, write(Precondition::None, put("4"))),
        ]);
        let expiries: Vec<_> = cells.iter().map(|(_, cell)| cell.stamp.expires_at_ms).collect();
        assert_eq!(expiries, [NOW_MS + 5, NOW_MS + 5, 0]);
    }
}
