use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Bound;
use std::rc::Rc;

use bytes::{Buf, Bytes, BytesMut};
use ladoga_model::Stamp;
use ladoga_resp::{Reply, Request, matches};
use ladoga_runtime::Permit;
use ladoga_service::{KeyRange, KeySpan, KeyValue, Pieces, RecordFormat, Scope};

use super::arguments::{integer, is};
use super::call::StoreCall;
use super::failed::Failed;
use super::served::{CommandResult, Served};
use super::table::Verb;

/// Keys that `SCAN` looks at if nothing is said, and at most.
const COUNT_DEFAULT: i64 = 10;
const COUNT_MAX: i64 = 10_000;
/// What `SCAN` answers together, about; and `KEYS` without taking room for it.
const SCAN_BYTES_MAX: usize = 1 << 20;
/// The longest pattern.
const PATTERN_BYTES_MAX: usize = 4 << 10;
/// Comparisons of bytes before others of the event loop have their turn: about a millisecond's.
const TURN_COST_MAX: usize = 1 << 20;
/// What `KEYS` may answer together.
const KEYS_BYTES_MAX: usize = 16 << 20;
/// `RANDOMKEY` chooses among so many.
const SAMPLE_KEYS_MAX: u64 = 1_000;
/// The smallest key there can be.
const FIRST_KEY: &[u8] = b"\0";

/// Records without their values: the length of the key, the key.
struct KeyRecords;

impl RecordFormat for KeyRecords {
    fn wants_values(&self) -> bool {
        false
    }

    fn record(&mut self, out: &mut Vec<u8>, key: &[u8], _: Stamp, _: &[u8]) {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(key);
    }

    fn begin_large(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, _: u64) {
        self.record(out, key, stamp, &[]);
    }

    fn large(&mut self, _: &mut Vec<u8>, _: &[u8]) {}

    fn end_large(&mut self, _: &mut Vec<u8>) {}

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// The keys of a range, in order, as a transaction would leave them if it is part of one.
pub(super) struct KeyReader {
    rest: Option<Box<dyn Pieces>>,
    read: BytesMut,
    _permit: Rc<Permit>,
    /// The next key that is stored, if it was read already.
    stored: Option<Bytes>,
    /// What the transaction has written in the range: keys, and whether they have a value.
    written: VecDeque<(Bytes, bool)>,
}

impl KeyReader {
    /// Of all keys that may match a pattern, or of all; behind this one, if there is one. No more than `count` will be asked for.
    pub(super) async fn open<K: KeyValue>(
        call: &StoreCall<K>,
        (pattern, after): (Option<&[u8]>, Option<&Bytes>),
        count: Option<u64>,
    ) -> Result<KeyReader, Failed> {
        let (start, end) = range_of(pattern, after);
        let permit = call.stream_permit().await?;
        let written = call.overlay.as_ref().map_or_else(VecDeque::new, |overlay| {
            let behind = end.clone().map_or(Bound::Unbounded, Bound::Excluded);
            let overlay = overlay.borrow();
            let is_empty = end.as_ref().is_some_and(|end| *end <= start);
            let written =
                (!is_empty).then(|| overlay.written.range((Bound::Included(start.clone()), behind)));
            written
                .into_iter()
                .flatten()
                .map(|(key, written)| (key.clone(), written.is_there(overlay.began_ms)))
                .collect()
        });
        let scope = if call.door.door.nodes > 1 { Scope::Cluster } else { Scope::Node };
        // What a transaction has deleted is stored, and passed over.
        let limit = count.filter(|_| written.is_empty());
        let range = KeyRange { span: KeySpan { start, end, is_reverse: false }, limit, scope };
        let rest = Some(call.service.range(&call.context(), range, Box::new(KeyRecords)).await?);
        Ok(KeyReader { rest, read: BytesMut::new(), _permit: permit, stored: None, written })
    }

    /// The next key; none behind the last.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            if self.written.is_empty() && self.stored.is_none() {
                return self.next_stored().await;
            }
            if self.stored.is_none() {
                self.stored = self.next_stored().await?;
            }
            let Some((written, has_value)) = self.written.front() else { return Ok(self.stored.take()) };
            match self.stored.as_ref().map(|stored| stored.cmp(written)) {
                Some(Ordering::Less) => return Ok(self.stored.take()),
                Some(Ordering::Equal) => self.stored = None,
                Some(Ordering::Greater) | None => {}
            }
            let key = has_value.then(|| written.clone());
            self.written.pop_front();
            if key.is_some() {
                return Ok(key);
            }
        }
    }

    async fn next_stored(&mut self) -> Result<Option<Bytes>, Failed> {
        loop {
            if let Some(key) = self.take_key() {
                return Ok(Some(key));
            }
            let Some(rest) = self.rest.take() else { return Ok(None) };
            if let Some((piece, rest)) = rest.next().await? {
                if piece.is_empty() {
                    // Much was looked at, and nothing found: others of the event loop have their turn.
                    tokio::task::yield_now().await;
                }
                self.read.extend_from_slice(&piece);
                self.rest = Some(rest);
            }
        }
    }

    /// The next key, if all of it has been read.
    fn take_key(&mut self) -> Option<Bytes> {
        let (key_bytes, behind) = self.read.split_first_chunk()?;
        let key_bytes = u32::from_le_bytes(*key_bytes) as usize;
        behind.get(..key_bytes)?;
        self.read.advance(size_of::<u32>());
        Some(self.read.split_to(key_bytes).freeze())
    }
}

/// What stands in a pattern before anything that is not itself.
fn prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte));
    &pattern[..end.unwrap_or(pattern.len())]
}

/// The key before which all keys with this prefix end.
fn behind(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(Bytes::from(end))
}

/// Where keys that match can be, from behind this key on.
fn range_of(pattern: Option<&[u8]>, after: Option<&Bytes>) -> (Bytes, Option<Bytes>) {
    let prefix = prefix(pattern.unwrap_or_default());
    let start = match after {
        Some(key) => [&key[..], FIRST_KEY].concat(),
        None => FIRST_KEY.to_vec(),
    };
    (Bytes::from(start.max(prefix.to_vec())), behind(prefix))
}

/// Where the keys can be that a `SCAN` or a `KEYS` is about, from the first on. What it is not served for counts as all keys.
pub(super) fn pattern_range(verb: Verb, request: &Request) -> (Bytes, Option<Bytes>) {
    let pattern = match verb {
        Verb::Keys => request.get(1),
        _ => ScanOptions::parse(request).ok().and_then(|options| options.pattern),
    };
    let prefix = prefix(pattern.unwrap_or_default());
    (Bytes::copy_from_slice(prefix), behind(prefix))
}

/// The options of `SCAN`.
struct ScanOptions<'r> {
    count: i64,
    pattern: Option<&'r [u8]>,
    /// Whether values, which are strings all, are of the type that is asked for.
    is_of_type: bool,
}

impl<'r> ScanOptions<'r> {
    fn parse(request: &'r Request) -> Result<ScanOptions<'r>, Failed> {
        let mut options = ScanOptions { count: COUNT_DEFAULT, pattern: None, is_of_type: true };
        let mut at = 2;
        while let Some(option) = request.get(at) {
            let value = request.get(at + 1).ok_or_else(Failed::syntax)?;
            if is(option, "COUNT") {
                options.count = integer(value)?;
                if options.count < 1 {
                    return Err(Failed::syntax());
                }
            } else if is(option, "MATCH") {
                check_pattern(value)?;
                options.pattern = Some(value);
            } else if is(option, "TYPE") {
                options.is_of_type = is(value, "string");
            } else {
                return Err(Failed::syntax());
            }
            at += 2;
        }
        Ok(options)
    }

    fn matches(&self, key: &[u8]) -> bool {
        self.is_of_type && self.pattern.is_none_or(|pattern| matches(pattern, key))
    }
}

/// No key is as long as a longer pattern, unless most of it stands for nothing; and what it costs to look at a key grows with it.
fn check_pattern(pattern: &[u8]) -> Result<(), Failed> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(Failed::err("the pattern is longer than 4096 bytes"));
    }
    Ok(())
}

/// What matching has cost since others had their turn.
#[derive(Default)]
struct Turn(usize);

impl Turn {
    /// Lets others have theirs, if it has cost much.
    async fn matched(&mut self, pattern: &[u8], key: &[u8]) {
        self.0 += 1 + pattern.len() * key.len();
        if self.0 > TURN_COST_MAX {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// `SCAN`: in the order of the keys, so each that is there all the time is answered exactly once.
pub(super) async fn scan<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let invalid = || Failed::err("invalid cursor");
    let cursor: u64 =
        str::from_utf8(&request[1]).ok().and_then(|text| text.parse().ok()).ok_or_else(invalid)?;
    let options = ScanOptions::parse(&request)?;
    let after = match cursor {
        0 => None,
        cursor => Some(call.door.cursors.key(cursor).ok_or_else(invalid)?),
    };
    let count = options.count.min(COUNT_MAX) as u64;
    let mut reader = KeyReader::open(&call, (options.pattern, after.as_ref()), Some(count)).await?;
    let (mut found, mut last, mut cursor) = (Vec::new(), None, 0);
    let (mut bytes, mut turn) = (0, Turn::default());
    for _ in 0..count {
        let Some(key) = reader.next().await? else {
            last = None;
            break;
        };
        turn.matched(options.pattern.unwrap_or_default(), &key).await;
        if options.matches(&key) {
            bytes += key.len();
            // By itself, so that it does not keep what was read around it.
            found.push(Reply::Bulk(Bytes::copy_from_slice(&key)));
        }
        last = Some(key);
        if bytes > SCAN_BYTES_MAX {
            break;
        }
    }
    if let Some(last) = last {
        cursor = call.door.cursors.after(&last);
    }
    Ok(Reply::Array(vec![Reply::Text(cursor.to_string()), Reply::Array(found)]).into())
}

/// `KEYS`, which keeps nobody else waiting, and refuses what would not fit into memory.
pub(super) async fn keys<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let pattern = &request[1];
    check_pattern(pattern)?;
    let mut reader = KeyReader::open(&call, (Some(pattern), None), None).await?;
    let (mut found, mut bytes, mut turn) = (Vec::new(), 0, Turn::default());
    let mut room = None;
    while let Some(key) = reader.next().await? {
        turn.matched(pattern, &key).await;
        if !matches(pattern, &key) {
            continue;
        }
        bytes += key.len() + size_of::<Reply>();
        if bytes > KEYS_BYTES_MAX {
            return Err(Failed::err("the keys that match take more than 16 MiB; use SCAN"));
        }
        if bytes > SCAN_BYTES_MAX && room.is_none() {
            room = Some(Rc::new(call.take_room(KEYS_BYTES_MAX as u64).await?));
        }
        // By itself, so that it does not keep what was read around it.
        found.push(Reply::Bulk(Bytes::copy_from_slice(&key)));
    }
    let found = Reply::Array(found);
    Ok(match room {
        Some(room) => Served::Held(found, room),
        None => Served::Reply(found),
    })
}

/// `DBSIZE`: counted, by reading all keys.
pub(super) async fn count<K: KeyValue>(call: StoreCall<K>) -> CommandResult {
    let mut reader = KeyReader::open(&call, (None, None), None).await?;
    let mut count: u64 = 0;
    while reader.next().await?.is_some() {
        count += 1;
    }
    Ok(Served::integer(count))
}

/// `RANDOMKEY`: one of the first keys, each as likely as the others.
pub(super) async fn random_key<K: KeyValue>(call: StoreCall<K>) -> CommandResult {
    let mut reader = KeyReader::open(&call, (None, None), Some(SAMPLE_KEYS_MAX)).await?;
    let (mut chosen, mut seen) = (None, 0);
    while seen < SAMPLE_KEYS_MAX
        && let Some(key) = reader.next().await?
    {
        seen += 1;
        if call.door.cursors.random().is_multiple_of(seen) {
            chosen = Some(key);
        }
    }
    // By itself, as above.
    Ok(Served::value(chosen.map(|key| Bytes::copy_from_slice(&key))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_narrows_the_range() {
        let range = |pattern: &str| range_of(Some(pattern.as_bytes()), None);
        assert_eq!(range("user:*"), (Bytes::from("user:"), Some(Bytes::from("user;"))));
        assert_eq!(range("*"), (Bytes::from("\0"), None));
        assert_eq!(range("h?"), (Bytes::from("h"), Some(Bytes::from("i"))));
        assert_eq!(behind(&[1, 255, 255]), Some(Bytes::from(vec![2])));
        assert_eq!(behind(&[255]), None);
        let after = Bytes::from("user:5");
        assert_eq!(range_of(Some(b"user:*"), Some(&after)).0, Bytes::from("user:5\0"));
        assert_eq!(range_of(Some(b"user:*"), Some(&Bytes::from("a"))).0, Bytes::from("user:"));
    }
}
