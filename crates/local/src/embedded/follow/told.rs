//! What tests of followers were told, and what they compare it with.

use std::collections::BTreeMap;

use bytes::Bytes;
use ladoga_model::{Stamp, Value};
use ladoga_service::{ChangeFormat, ChangedTo, KeySpan};

/// Each change is a line: what, the key, the version, when it expires, the value or its length.
pub(super) struct Text;

impl ChangeFormat for Text {
    fn change(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, to: ChangedTo<'_>) {
        let value = match to {
            ChangedTo::Value(Value::Inline(value)) => format!("put {}", value.escape_ascii()),
            ChangedTo::Value(Value::Large(bytes)) => format!("large {bytes}"),
            ChangedTo::Nothing => "delete".to_owned(),
            ChangedTo::Expired => "expire".to_owned(),
        };
        let (timestamp, expires) = (stamp.version.timestamp, stamp.expires_at_ms);
        out.extend_from_slice(format!("{} {timestamp} {expires} {value}\n", key.escape_ascii()).as_bytes());
    }
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownCell {
    pub(super) timestamp: u64,
    pub(super) expires_ms: u64,
    pub(super) value: Option<String>,
}

impl KnownCell {
    fn as_of(&self, now_ms: u64) -> Option<&str> {
        let is_over = self.expires_ms != 0 && self.expires_ms <= now_ms;
        self.value.as_deref().filter(|_| !is_over)
    }
}

pub(super) type State = BTreeMap<String, KnownCell>;

/// The changes of a piece.
pub(super) fn parse(bytes: Vec<u8>) -> Vec<(String, KnownCell)> {
    let text = String::from_utf8(bytes).expect("text");
    let change = |line: &str| {
        let parts: Vec<&str> = line.splitn(4, ' ').collect();
        let &[key, timestamp, expires, value] = parts.as_slice() else { panic!("no change: {line}") };
        let (timestamp, expires_ms) =
            (timestamp.parse().expect("a number"), expires.parse().expect("a number"));
        let value = value.strip_prefix("put ").or(value.strip_prefix("large ")).map(str::to_owned);
        (key.to_owned(), KnownCell { timestamp, expires_ms, value })
    };
    text.lines().map(change).collect()
}

pub(super) fn key_span(start: &'static str, end: Option<&'static str>) -> KeySpan {
    KeySpan { start: Bytes::from(start), end: end.map(Bytes::from), is_reverse: false }
}

pub(super) fn values(state: &State, span: &KeySpan, now_ms: u64) -> BTreeMap<String, String> {
    let is_inside = |key: &str| {
        span.start[..] <= *key.as_bytes() && span.end.as_ref().is_none_or(|end| key.as_bytes() < &end[..])
    };
    let live = state.iter().filter(|(key, _)| is_inside(key));
    live.filter_map(|(key, known)| Some((key.clone(), known.as_of(now_ms)?.to_owned()))).collect()
}

pub(super) fn differing(
    found: &BTreeMap<String, String>,
    expected: &BTreeMap<String, String>,
) -> Vec<String> {
    let short = |value: Option<&String>| value.map(|value| value[..value.len().min(24)].to_owned());
    let keys = found.keys().chain(expected.keys()).filter(|key| found.get(*key) != expected.get(*key));
    keys.map(|key| format!("{key}: {:?}, expected {:?}", short(found.get(key)), short(expected.get(key))))
        .collect()
}
