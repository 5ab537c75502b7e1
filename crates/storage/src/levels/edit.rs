use ladoga_model::HybridClock;

use crate::coding::Reader;
use crate::options::LEVELS;
use crate::paths::NUMBER_MAX;
use crate::table::{Expiries, TableMeta};

/// One change of what a store consists of; the payload of one frame of the manifest.
///
/// ```text
/// edit := item*
/// item := 1 next_file u64 | 2 first_wal u64 | 3 level u8, meta | 4 number u64 | 5 first_sequence u64
///       | 6 log_begun | 7 level u8, meta, expiries | 8 dropped_up_to u64                              (never change)
/// ```
/// 1: numbers from here on are unused. 2: logs from here on are not in tables yet. 3: a new table. 4: a table is removed. 5:
/// the sequence of the first group in those logs. 6: from now on the first of those logs always exists as a file. 7: a new
/// table with values that expire. 8: deletions up to this timestamp may have been dropped although somebody may ask for them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub next_file: Option<u64>,
    pub first_wal: Option<u64>,
    pub first_sequence: Option<u64>,
    pub log_begun: bool,
    pub added: Vec<(usize, TableMeta)>,
    pub removed: Vec<u64>,
    pub dropped_up_to: Option<u64>,
}

/// No store writes as many groups; a greater number is none of ours, and leaves no room for the ones to come.
const SEQUENCE_MAX: u64 = 1 << 60;

const NEXT_FILE: u8 = 1;
const FIRST_WAL: u8 = 2;
const ADDED: u8 = 3;
const REMOVED: u8 = 4;
const FIRST_SEQUENCE: u8 = 5;
const LOG_BEGUN: u8 = 6;
const ADDED_EXPIRING: u8 = 7;
const DROPPED_UP_TO: u8 = 8;

impl Edit {
    pub(crate) fn encode(&self) -> Vec<u8> {
        self.encode_in_parts(usize::MAX).remove(0)
    }

    /// The same as several edits, each of at most about `bytes_max` unless one table takes more: a frame holds only so much. The
    /// numbers are in the last, so whoever needs to know where the log begins sees that all are there.
    pub(crate) fn encode_in_parts(&self, bytes_max: usize) -> Vec<Vec<u8>> {
        let (mut parts, mut tables) = (Vec::new(), Vec::new());
        for (level, meta) in &self.added {
            let before = tables.len();
            encode_added(*level, meta, &mut tables);
            if before > 0 && tables.len() > bytes_max {
                let next = tables.split_off(before);
                parts.push(std::mem::replace(&mut tables, next));
            }
        }
        let mut last = self.encode_all_but_added();
        last.append(&mut tables);
        parts.push(last);
        parts
    }

    fn encode_all_but_added(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut number = |tag: u8, number: u64| {
            out.push(tag);
            out.extend_from_slice(&number.to_le_bytes());
        };
        self.next_file.into_iter().for_each(|next| number(NEXT_FILE, next));
        self.first_wal.into_iter().for_each(|first| number(FIRST_WAL, first));
        self.first_sequence.into_iter().for_each(|first| number(FIRST_SEQUENCE, first));
        self.dropped_up_to.into_iter().for_each(|up_to| number(DROPPED_UP_TO, up_to));
        self.removed.iter().for_each(|removed| number(REMOVED, *removed));
        if self.log_begun {
            out.push(LOG_BEGUN);
        }
        out
    }

    /// `None` if the bytes are no edit.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Edit> {
        let mut reader = Reader::new(bytes);
        let mut edit = Edit::default();
        let number = |reader: &mut Reader<'_>| reader.u64().filter(|number| *number <= NUMBER_MAX);
        let sequence =
            |reader: &mut Reader<'_>| reader.u64().filter(|first| (1..=SEQUENCE_MAX).contains(first));
        while reader.remaining() > 0 {
            match reader.u8()? {
                NEXT_FILE => edit.next_file = Some(number(&mut reader)?),
                FIRST_WAL => edit.first_wal = Some(number(&mut reader)?),
                tag @ (ADDED | ADDED_EXPIRING) => {
                    let level = usize::from(reader.u8()?);
                    if level >= LEVELS {
                        return None;
                    }
                    let mut meta = TableMeta::decode(&mut reader)?;
                    if tag == ADDED_EXPIRING {
                        meta.expiries = Expiries::decode(&mut reader)?;
                    }
                    edit.added.push((level, meta));
                }
                FIRST_SEQUENCE => edit.first_sequence = Some(sequence(&mut reader)?),
                LOG_BEGUN => edit.log_begun = true,
                REMOVED => edit.removed.push(number(&mut reader)?),
                DROPPED_UP_TO => {
                    edit.dropped_up_to =
                        Some(reader.u64().filter(|up_to| *up_to <= HybridClock::TIMESTAMP_MAX)?);
                }
                _ => return None,
            }
        }
        Some(edit)
    }
}

fn encode_added(level: usize, meta: &TableMeta, out: &mut Vec<u8>) {
    // What knows of no expiry can read on for as long as there is none.
    let tag = if meta.expiries.is_empty() { ADDED } else { ADDED_EXPIRING };
    out.extend_from_slice(&[tag, level as u8]);
    meta.encode(out);
    if tag == ADDED_EXPIRING {
        meta.expiries.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Kind, Record};
    use ladoga_model::{Stamp, Version};
    use proptest::prelude::*;

    fn meta(number: u64) -> TableMeta {
        TableMeta {
            number,
            file_bytes: 4096,
            records: 3,
            tombstones: 1,
            blob_bytes: 9,
            newest: Version { timestamp: 8, node: 2 },
            oldest: Version { timestamp: 5, node: 1 },
            smallest: b"a".as_slice().into(),
            largest: b"b".as_slice().into(),
            blobs: vec![5, 6],
            expiries: Expiries::default(),
        }
    }

    /// A table with one expiry.
    fn expiring(number: u64) -> TableMeta {
        let version = Version { timestamp: 8, node: 2 };
        let stamp = Stamp { expires_at_ms: 60_000, ..Stamp::new(version) };
        let mut meta = meta(number);
        meta.count(&Record { key: b"b", stamp, kind: Kind::Value, value: b"value" });
        meta
    }

    #[test]
    fn decoding_gives_back_what_was_encoded_and_refuses_the_rest() {
        let edit = Edit {
            next_file: Some(9),
            first_wal: Some(3),
            first_sequence: Some(4),
            log_begun: true,
            added: vec![(0, meta(7)), (6, meta(8)), (1, expiring(9))],
            removed: vec![1, 2],
            dropped_up_to: Some(HybridClock::TIMESTAMP_MAX),
        };
        let bytes = edit.encode();
        assert_eq!(Edit::decode(&bytes), Some(edit.clone()));
        let whole = |cut: usize| Edit::decode(&bytes[..cut]).is_some_and(|shorter| shorter == edit);
        assert!((0..bytes.len()).all(|cut| !whole(cut)));
        assert_eq!(Edit::decode(&[ADDED, LEVELS as u8]), None);
        for tag in [NEXT_FILE, FIRST_WAL, REMOVED] {
            let with = |number: u64| Edit::decode(&[&[tag][..], &number.to_le_bytes()].concat());
            assert!(with(NUMBER_MAX).is_some() && with(NUMBER_MAX + 1).is_none(), "{tag}");
        }
        let dropped = |up_to: u64| Edit::decode(&[&[DROPPED_UP_TO][..], &up_to.to_le_bytes()].concat());
        assert!(
            dropped(HybridClock::TIMESTAMP_MAX).is_some()
                && dropped(HybridClock::TIMESTAMP_MAX + 1).is_none()
        );
        let first = |first: u64| Edit::decode(&[&[FIRST_SEQUENCE][..], &first.to_le_bytes()].concat());
        assert!(first(1).is_some() && first(SEQUENCE_MAX).is_some());
        assert!(first(0).is_none() && first(SEQUENCE_MAX + 1).is_none());
    }

    proptest! {
        #[test]
        fn broken_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Edit::decode(&bytes);
        }
    }
}
