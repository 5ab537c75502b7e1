//! A record as a line of JSON, as ranges print it, and the line of a batch that stores it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ladoga_model::{Quote, TTL_MS_MAX};
use serde_json::{Deserializer, Map, Value};

use super::batch::LINE_BYTES_MAX;
use crate::client::{Request, percent_encoded};

/// The beginning of a line, which has all of its key.
pub(super) const BEGINNING_BYTES: usize = 32 << 10;

/// What becomes of a line of a range.
pub(super) enum Record {
    /// It is empty.
    Blank,
    /// It has expired since then.
    Expired,
    /// This line of a batch stores it.
    Line(Vec<u8>),
    /// It is too large for one.
    Large(LargeRecord),
}

/// A record that is stored by itself.
#[derive(Default)]
pub(super) struct LargeRecord {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    pub(super) expires_ms: Option<u64>,
    /// How long it lives from when it is stored, if it does not say when it expires.
    pub(super) ttl: Option<String>,
    /// Header fields without which it would replace what it is not to replace.
    pub(super) conditions: Vec<(&'static str, String)>,
}

impl LargeRecord {
    fn of(members: &Map<String, Value>, expires_ms: Option<u64>) -> Result<LargeRecord, String> {
        let (key, value) = (Member::of(members, "key")?.bytes()?, Member::of(members, "value")?.bytes()?);
        let mut conditions = Vec::new();
        for (name, field) in [("if_match", "if-match"), ("if_none_match", "if-none-match")] {
            conditions.extend(text_of_member(members, name)?.map(|text| (field, text)));
        }
        let ttl = if expires_ms.is_none() { text_of_member(members, "ttl")? } else { None };
        Ok(LargeRecord { key, value, expires_ms, ttl, conditions })
    }

    /// What stores it now; none if it has expired.
    pub(super) fn put(&self, now_ms: u64) -> Option<Request<'_>> {
        let ttl = match (self.expires_ms, &self.ttl) {
            (Some(at_ms), _) => format!("&ttl={}ms", ttl_ms(at_ms, now_ms)?),
            (None, Some(ttl)) => format!("&ttl={}", percent_encoded(ttl.as_bytes())),
            (None, None) => String::new(),
        };
        let target = format!("/v0/entity?id={}{ttl}", percent_encoded(&self.key));
        let fields = self.conditions.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Some(Request { method: "PUT", target, fields, body: Some(&self.value) })
    }
}

/// A member that becomes part of the head of a request.
fn text_of_member(members: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        // Another line would be another field.
        Some(Value::String(text)) if !text.contains(char::is_control) => Ok(Some(text.clone())),
        Some(_) => Err(format!("expected {name}, a text without control characters")),
    }
}

/// How long a record that expires then has to live; none if that is over. What lives for longer than anything can be given lives for as
/// long as that.
fn ttl_ms(expires_ms: u64, now_ms: u64) -> Option<u64> {
    expires_ms.checked_sub(now_ms).filter(|&ms| ms > 0).map(|ms| ms.min(TTL_MS_MAX))
}

/// The key of a record, if this is the beginning of its line.
pub(super) fn key_of(beginning: &[u8]) -> Option<Vec<u8>> {
    let text = |from: &[u8]| Deserializer::from_slice(from).into_iter::<String>().next()?.ok();
    match beginning.strip_prefix(b"{\"key\":") {
        Some(rest) => text(rest).map(String::into_bytes),
        None => STANDARD.decode(text(beginning.strip_prefix(b"{\"key_base64\":")?)?).ok(),
    }
}

/// The same, and when the record expires; 0 if it never does. The beginning has to reach to the value.
pub(super) fn key_and_expiry(beginning: &[u8]) -> Option<(Vec<u8>, u64)> {
    // Within a text, quotes are escaped.
    let value = beginning.windows(VALUE.len()).position(|window| window == VALUE)?;
    let members: Map<String, Value> = serde_json::from_slice(&[&beginning[..value], b"}"].concat()).ok()?;
    let key = Member::of(&members, "key").ok()?.bytes().ok()?;
    Some((key, members.get("expires_ms").map_or(Some(0), Value::as_u64)?))
}

/// The key of a whole line of an export, and whether it has conditions.
pub(super) fn key_and_conditions(line: &[u8]) -> Option<(Vec<u8>, bool)> {
    let members: Map<String, Value> = serde_json::from_slice(line).ok()?;
    let key = Member::of(&members, "key").ok()?.bytes().ok()?;
    let has = |name| members.get(name).is_some_and(|value| !value.is_null());
    Some((key, has("if_match") || has("if_none_match")))
}

/// What the value of a record begins with.
const VALUE: &[u8] = b",\"value";

/// What a record may have: what an export prints, and what a line of a batch has.
const MEMBERS: [&str; 10] = [
    "key",
    "key_base64",
    "value",
    "value_base64",
    "etag",
    "expires_ms",
    "ttl",
    "if_match",
    "if_none_match",
    "op",
];

/// What becomes of a line at this time.
pub(super) fn record(line: &[u8], now_ms: u64) -> Result<Record, String> {
    if line.trim_ascii().is_empty() {
        return Ok(Record::Blank);
    }
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(not_of_export(line));
    }
    let mut members: Map<String, Value> = serde_json::from_slice(line).map_err(|error| no_object(&error))?;
    if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        let (found, known) = (Quote::of(unknown.as_bytes()), MEMBERS.join(", "));
        return Err(format!("it has an unknown field {found}; known are {known}"));
    }
    members.remove("etag");
    let mut expires_ms = None;
    if let Some(expires) = members.remove("expires_ms") {
        let at_ms = expires.as_u64().ok_or("expires_ms is no whole number")?;
        let Some(ms) = ttl_ms(at_ms, now_ms) else { return Ok(Record::Expired) };
        members.insert("ttl".to_owned(), format!("{ms}ms").into());
        expires_ms = Some(at_ms);
    }
    let (key, value) = (Member::of(&members, "key")?, Member::of(&members, "value")?);
    if key.text.len() + value.text.len() > LINE_BYTES_MAX {
        return LargeRecord::of(&members, expires_ms).map(Record::Large);
    }
    members.insert("op".to_owned(), "put".into());
    let mut operation = serde_json::to_vec(&members).map_err(|error| error.to_string())?;
    if operation.len() > LINE_BYTES_MAX {
        return LargeRecord::of(&members, expires_ms).map(Record::Large);
    }
    operation.push(b'\n');
    Ok(Record::Line(operation))
}

/// What else than an object a line begins with.
fn not_of_export(line: &[u8]) -> String {
    let why = match line {
        [0x1f, 0x8b, ..] => ": that is gzip; decompress it first, as by `gunzip -c FILE | ladoga import -`",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            ": that is zstd; decompress it first, as by `zstd -dc FILE | ladoga import -`"
        }
        [0xef, 0xbb, 0xbf, ..] => ": that is a byte order mark; save the file as UTF-8 without one",
        _ => "",
    };
    format!("it is no JSON object, it begins with {}{why}", Quote::of(line.trim_ascii_end()))
}

/// What the reader of JSON says, without its number of a line: that one counts within this line.
fn no_object(error: &serde_json::Error) -> String {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let reason = text.strip_suffix(&place).unwrap_or(&text);
    format!("it is no JSON object, by column {}: {reason}", error.column())
}

/// Bytes as a record has them: as text, or as Base64.
pub(super) struct Member<'m> {
    name: &'static str,
    text: &'m str,
    is_base64: bool,
}

impl<'m> Member<'m> {
    pub(super) fn of(members: &'m Map<String, Value>, name: &'static str) -> Result<Member<'m>, String> {
        let (plain, base64) = (members.get(name), members.get(&format!("{name}_base64")));
        let (text, is_base64) = match (plain.map(Value::as_str), base64.map(Value::as_str)) {
            (Some(Some(text)), None) => (text, false),
            (None, Some(Some(text))) => (text, true),
            _ => return Err(format!("expected {name} or {name}_base64, a text")),
        };
        Ok(Member { name, text, is_base64 })
    }

    pub(super) fn bytes(&self) -> Result<Vec<u8>, String> {
        let Member { name, text, is_base64 } = self;
        if !is_base64 {
            return Ok(text.as_bytes().to_vec());
        }
        STANDARD.decode(text).map_err(|error| format!("{name}_base64: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_line_of_a_batch() {
        let line = |text: &str| match record(text.as_bytes(), 1_000) {
            Ok(Record::Line(line)) => serde_json::from_slice::<Value>(&line).expect("JSON"),
            _ => panic!("no line: {text}"),
        };
        let operation = line("{\"key\":\"a\",\"etag\":\"\\\"0-0\\\"\",\"value_base64\":\"/w==\"}\n");
        assert_eq!(operation, serde_json::json!({"op": "put", "key": "a", "value_base64": "/w=="}));
        let operation = line("{\"key_base64\":\"/w==\",\"expires_ms\":1500,\"value\":\"\"}");
        let expected = serde_json::json!({"op": "put", "key_base64": "/w==", "value": "", "ttl": "500ms"});
        assert_eq!(operation, expected);
        let expired = record(b"{\"key\":\"a\",\"value\":\"\",\"expires_ms\":1000}", 1_000);
        assert!(matches!(expired, Ok(Record::Expired)));
        assert!(matches!(record(b" \r\n", 0), Ok(Record::Blank)));
        for wrong in
            ["nonsense", "[]", "{}", "{\"key\":\"a\"}", "{\"key\":1,\"value\":\"\"}", "{\"value\":\"\"}"]
        {
            assert!(record(wrong.as_bytes(), 0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_record_is_told_by_what_it_is() {
        for (line, said) in [
            (&b"nonsense"[..], "it is no JSON object, it begins with 'nonsense'"),
            (b"\x1f\x8b\x08\0", "gzip; decompress it first"),
            (b"\xef\xbb\xbf{\"key\":\"a\",\"value\":\"\"}", "a byte order mark"),
            (
                b"{\"key\":\"a\",\"value\":\"\",\"color\":1}",
                "unknown field 'color'; known are key, key_base64, value",
            ),
            (b"{\"key\":\"a\"", "by column 10"),
        ] {
            let told = record(line, 0).err().unwrap_or_default();
            assert!(told.contains(said), "{told}");
        }
    }

    #[test]
    fn what_is_too_large_for_a_line_is_stored_by_itself() {
        let controls = "\\u0001".repeat(LINE_BYTES_MAX / 5);
        let large = record(format!("{{\"key\":\"a\",\"value\":\"{controls}\"}}").as_bytes(), 0);
        assert!(matches!(large, Ok(Record::Large(LargeRecord { key, value, .. }))
            if key == b"a" && value.len() == LINE_BYTES_MAX / 5 && value[0] == 1));
        let text = STANDARD.encode(vec![7; LINE_BYTES_MAX]);
        let large = record(format!("{{\"key\":\"a\",\"value_base64\":\"{text}\"}}").as_bytes(), 0);
        assert!(
            matches!(large, Ok(Record::Large(LargeRecord { value, .. })) if value == vec![7; LINE_BYTES_MAX])
        );
    }

    #[test]
    fn what_is_stored_by_itself_lives_until_it_expires_whenever_that_is_sent() {
        let (key, value) = (b"a".to_vec(), b"v".to_vec());
        let mut large = LargeRecord { key, value, expires_ms: Some(2_000), ..LargeRecord::default() };
        let target = |large: &LargeRecord, now_ms| large.put(now_ms).map(|request| request.target);
        assert_eq!(target(&large, 1_500).as_deref(), Some("/v0/entity?id=a&ttl=500ms"));
        assert_eq!(target(&large, 2_000), None);
        large.expires_ms = None;
        assert_eq!(target(&large, 2_000).as_deref(), Some("/v0/entity?id=a"));
    }

    /// They were dropped, so that such a record replaced what it was not to replace, and never expired.
    #[test]
    fn what_is_stored_by_itself_keeps_its_ttl_and_its_conditions() {
        let value = "x".repeat(LINE_BYTES_MAX);
        let of = |members: &str| match record(
            format!("{{\"key\":\"a\",{members},\"value\":\"{value}\"}}").as_bytes(),
            1_000,
        ) {
            Ok(Record::Large(large)) => Ok(large),
            Err(reason) => Err(reason),
            Ok(_) => panic!("no large record: {members}"),
        };
        let sent = |members| {
            let large = of(members).expect("a record");
            let request = large.put(1_000).expect("it has not expired");
            let fields: Vec<_> =
                request.fields.iter().map(|(name, text)| format!("{name}: {text}")).collect();
            (request.target, fields.join(", "))
        };
        assert_eq!(sent(r#""ttl":"5m""#), ("/v0/entity?id=a&ttl=5m".to_owned(), String::new()));
        assert_eq!(sent(r#""ttl":"5m","expires_ms":1500"#).0, "/v0/entity?id=a&ttl=500ms");
        assert_eq!(sent(r#""if_none_match":"*","ttl":null"#).1, "if-none-match: *");
        let both = sent(r#""if_match":"\"0-1\"","if_none_match":"*""#);
        assert_eq!(both, ("/v0/entity?id=a".to_owned(), "if-match: \"0-1\", if-none-match: *".to_owned()));
        for wrong in [r#""ttl":5"#, r#""if_match":["*"]"#, r#""if_match":"*\r\nhost: b""#] {
            assert!(of(wrong).is_err_and(|reason| reason.contains("without control characters")), "{wrong}");
        }
    }

    #[test]
    fn the_beginning_of_a_line_has_its_key_and_expiry() {
        let of = |text: &str| key_and_expiry(text.as_bytes());
        let key = b",\"value".to_vec();
        assert_eq!(of(r#"{"key":",\"value","etag":"\"0\"","value":"x"#), Some((key, 0)));
        assert_eq!(of(r#"{"key_base64":"/w==","expires_ms":9,"value_base64":"AAA"#), Some((vec![0xff], 9)));
        for wrong in ["", r#"{"key":"a""#, r#"{"key":"a","expires_ms":-1,"value":""#, r#"x,"value":""#] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
