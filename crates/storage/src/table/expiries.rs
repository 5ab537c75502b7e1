use crate::coding::Reader;
use crate::record::{Kind, Record};

/// How many expiry times are kept; times that are near each other are joined into the later one.
const TIMES_MAX: usize = 16;

/// How much of a table expires, and when: so the background knows, without reading the table, how much of it is dead.
///
/// ```text
/// expiries := last_end u64, value_bytes u64, n u8, (until_ms u64, bytes u64) × n
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Expiries {
    /// Of values that expired and have lost their bytes: the timestamp after which the last of them may be dropped; 0 if there
    /// are none.
    last_end: u64,
    /// Bytes of all values of the table, with their keys and blob files.
    value_bytes: u64,
    /// Bytes that expire by each time, in order of time. Times are rounded up: no value is counted before it has expired.
    times: Vec<(u64, u64)>,
}

impl Expiries {
    /// Takes in the next record of the table.
    pub(super) fn count(&mut self, record: &Record<'_>) {
        let end = record.stamp.ends_at();
        if record.kind == Kind::Tombstone {
            self.last_end = self.last_end.max(end.unwrap_or(0));
            return;
        }
        let bytes = bytes_of(record);
        self.value_bytes = self.value_bytes.saturating_add(bytes);
        if end.is_some() {
            self.add(record.stamp.expires_at_ms, bytes);
        }
    }

    /// Forgets the size of its values, if none of them expires.
    pub(super) fn finish(&mut self) {
        if self.is_empty() {
            *self = Expiries::default();
        }
    }

    fn add(&mut self, until_ms: u64, bytes: u64) {
        match self.times.binary_search_by_key(&until_ms, |&(until_ms, _)| until_ms) {
            Ok(at) => self.times[at].1 = self.times[at].1.saturating_add(bytes),
            Err(at) => self.times.insert(at, (until_ms, bytes)),
        }
        if self.times.len() > TIMES_MAX {
            self.join_cheapest();
        }
    }

    /// Joins the two neighbouring times that cost the least: the bytes of the first are counted as live until the second, so
    /// the cost is those bytes times the difference.
    fn join_cheapest(&mut self) {
        let pairs = self.times.windows(2).enumerate();
        let cost = |pair: &[(u64, u64)]| u128::from(pair[1].0 - pair[0].0) * u128::from(pair[0].1);
        if let Some((first, _)) = pairs.min_by_key(|(_, pair)| cost(pair)) {
            let (_, bytes) = self.times.remove(first);
            self.times[first].1 = self.times[first].1.saturating_add(bytes);
        }
    }

    /// Whether there is nothing to tell.
    pub(crate) const fn is_empty(&self) -> bool {
        self.last_end == 0 && self.times.is_empty()
    }

    /// Bytes of values that had expired by this time, if they are at least half of all values; else 0.
    pub(crate) fn mostly_expired_bytes(&self, before_ms: u64) -> u64 {
        let expired_bytes = self.expired_bytes(before_ms);
        if expired_bytes.saturating_mul(2) >= self.value_bytes { expired_bytes } else { 0 }
    }

    fn expired_bytes(&self, before_ms: u64) -> u64 {
        let expired = self.times.iter().take_while(|(until_ms, _)| *until_ms <= before_ms);
        expired.map(|(_, bytes)| bytes).fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Of values that have lost their bytes, the timestamp after which the last one may be dropped; 0 if there are none.
    pub(crate) const fn last_end(&self) -> u64 {
        self.last_end
    }

    /// What it takes of memory beside itself.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.times)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.last_end.to_le_bytes());
        out.extend_from_slice(&self.value_bytes.to_le_bytes());
        out.push(self.times.len() as u8);
        for (until_ms, bytes) in &self.times {
            out.extend_from_slice(&until_ms.to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Expiries> {
        let (last_end, value_bytes) = (reader.u64()?, reader.u64()?);
        let count = usize::from(reader.u8()?);
        let mut times = Vec::with_capacity(count.min(TIMES_MAX));
        for _ in 0..count {
            times.push((reader.u64()?, reader.u64()?));
        }
        let rise = times.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (count <= TIMES_MAX && rise).then_some(Expiries { last_end, value_bytes, times })
    }
}

fn bytes_of(record: &Record<'_>) -> u64 {
    record.encoded_bytes() as u64 + record.blob_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_model::{HybridClock, Stamp, Version};

    fn record(expires_at_ms: u64, kind: Kind, value: &[u8]) -> Record<'_> {
        let version = Version { timestamp: HybridClock::at_wall_ms(1_000), node: 0 };
        Record { key: b"key", stamp: Stamp { expires_at_ms, ..Stamp::new(version) }, kind, value }
    }

    fn of(records: &[Record<'_>]) -> Expiries {
        let mut expiries = Expiries::default();
        records.iter().for_each(|record| expiries.count(record));
        expiries
    }

    #[test]
    fn what_never_expires_is_not_told_of() {
        let mut expiries = of(&[record(0, Kind::Value, b"value"), record(0, Kind::Tombstone, b"")]);
        assert!(expiries.is_empty());
        expiries.finish();
        assert_eq!(expiries, Expiries::default());
    }

    #[test]
    fn bytes_are_told_when_their_time_is_over_and_what_is_left_of_them_by_its_end() {
        let (value, more) = (record(5_000, Kind::Value, b"value"), record(7_000, Kind::Value, b"mor"));
        let expiries = of(&[value, more, record(61_000, Kind::Tombstone, b"")]);
        let (first, both) = (bytes_of(&value), bytes_of(&value) + bytes_of(&more));
        let told = [4_999, 5_000, 6_999, 7_000].map(|before_ms| expiries.expired_bytes(before_ms));
        assert_eq!(told, [0, first, first, both]);
        assert_eq!([6_999, 7_000].map(|before_ms| expiries.mostly_expired_bytes(before_ms)), [first, both]);
        let others = of(&[record(5_000, Kind::Value, b"value"), record(0, Kind::Value, &[0; 20])]);
        assert_eq!(others.mostly_expired_bytes(5_000), 0, "less than half");
        assert_eq!(expiries.last_end(), HybridClock::at_wall_ms(90_000));
    }

    #[test]
    fn of_many_times_some_are_joined_and_none_is_told_too_early() {
        let value = [0; 100];
        let bytes = bytes_of(&record(5_000, Kind::Value, &value));
        let records: Vec<_> = (0..1_000).map(|n| record(5_000 + n * 13 % 977, Kind::Value, &value)).collect();
        let expiries = of(&records);
        assert!(expiries.times.len() <= TIMES_MAX);
        let mut most_late = 0;
        for before_ms in 4_990..6_000 {
            let is_over = |record: &&Record<'_>| record.stamp.expires_at_ms <= before_ms;
            let expired = records.iter().filter(is_over).count() as u64 * bytes;
            let told = expiries.expired_bytes(before_ms);
            assert!(told <= expired, "{told} of {expired} at {before_ms}");
            most_late = most_late.max(expired - told);
        }
        assert!(most_late <= bytes * 1_000 / 4, "{most_late} bytes are told late");
        assert_eq!(expiries.expired_bytes(6_000), bytes * 1_000);
    }

    #[test]
    fn decoding_gives_back_what_was_encoded_and_refuses_the_rest() {
        let expiries = of(&[record(5_000, Kind::Value, b"value"), record(7_000, Kind::Tombstone, b"")]);
        let mut bytes = Vec::new();
        expiries.encode(&mut bytes);
        assert_eq!(Expiries::decode(&mut Reader::new(&bytes)), Some(expiries));
        assert!((0..bytes.len()).all(|cut| Expiries::decode(&mut Reader::new(&bytes[..cut])).is_none()));
        let with = |times: &[(u64, u64)]| {
            let mut bytes = Vec::new();
            Expiries { last_end: 1, value_bytes: 9, times: times.to_vec() }.encode(&mut bytes);
            Expiries::decode(&mut Reader::new(&bytes))
        };
        assert!(with(&[(1, 5), (2, 5)]).is_some());
        assert_eq!(with(&[(2, 5), (2, 5)]), None);
        assert_eq!(with(&(0..=TIMES_MAX as u64).map(|n| (n, 1)).collect::<Vec<_>>()), None);
    }
}
