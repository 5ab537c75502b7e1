use ladoga_model::Stamp;
use ladoga_service::RecordFormat;

use super::base64::{Base64, base64_bytes};
use super::framing::Framing;
use super::json::{put_bytes, put_stamp};

/// Records as lines of JSON:
///
/// ```text
/// {"key":"lake","etag":"\"0019abcdef012345-0000\"","expires_ms":1764000000000,"value":"deep"}
/// ```
///
/// `key_base64` and `value_base64` in place of `key` and `value` have bytes that are no UTF-8; `expires_ms` is there if the value
/// expires. Of a large value it is not known whether it is UTF-8 before all of it is read, so that it is `value_base64` always.
pub(super) struct JsonRecords {
    framing: Framing,
    has_values: bool,
    /// What of a large value is written.
    large: Base64,
    /// A line that is being made.
    line: Vec<u8>,
}

/// What stays allocated for a line. A range holds it while its client takes what is written.
const LINE_BYTES_KEPT: usize = 64 << 10;
/// What comes after a large value.
const LARGE_END: &[u8] = b"\"}\n";

impl JsonRecords {
    pub(super) fn new(framing: Framing, has_values: bool) -> JsonRecords {
        JsonRecords { framing, has_values, large: Base64::default(), line: Vec::new() }
    }

    /// Begins a line, up to the value.
    fn begin(&mut self, key: &[u8], stamp: Stamp) {
        self.line.clear();
        self.line.push(b'{');
        put_bytes(&mut self.line, "key", key);
        put_stamp(&mut self.line, stamp.version, stamp.expires_at_ms);
    }
}

impl RecordFormat for JsonRecords {
    fn wants_values(&self) -> bool {
        self.has_values
    }

    fn record(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, value: &[u8]) {
        self.begin(key, stamp);
        if self.has_values {
            self.line.push(b',');
            put_bytes(&mut self.line, "value", value);
        }
        self.line.extend_from_slice(b"}\n");
        self.framing.whole(out, &self.line);
        // What is in it would stay.
        self.line.clear();
        self.line.shrink_to(LINE_BYTES_KEPT);
    }

    fn begin_large(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, value_bytes: u64) {
        self.begin(key, stamp);
        self.line.extend_from_slice(b",\"value_base64\":\"");
        let line_bytes = self.line.len() + LARGE_END.len();
        self.framing.begin(out, line_bytes as u64 + base64_bytes(value_bytes));
        out.extend_from_slice(&self.line);
    }

    fn large(&mut self, out: &mut Vec<u8>, bytes: &[u8]) {
        self.large.put(out, bytes);
    }

    fn end_large(&mut self, out: &mut Vec<u8>) {
        self.large.finish(out);
        out.extend_from_slice(LARGE_END);
        self.framing.end(out);
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        self.framing.last(out);
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::Version;

    use super::*;

    const STAMP: Stamp = Stamp::new(Version { timestamp: 1, node: 2 });
    const ETAG: &str = "\"etag\":\"\\\"0000000000000001-0002\\\"\"";

    fn line(has_values: bool, stamp: Stamp, key: &[u8], value: &[u8]) -> String {
        let mut out = Vec::new();
        JsonRecords::new(Framing::Plain, has_values).record(&mut out, key, stamp, value);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_record_is_a_line() {
        assert_eq!(line(true, STAMP, b"k", b"v"), format!("{{\"key\":\"k\",{ETAG},\"value\":\"v\"}}\n"));
        assert_eq!(line(false, STAMP, b"k", b"v"), format!("{{\"key\":\"k\",{ETAG}}}\n"));
        let expiring = Stamp { expires_at_ms: 17, ..STAMP };
        let expected = format!("{{\"key\":\"k\",{ETAG},\"expires_ms\":17,\"value\":\"\"}}\n");
        assert_eq!(line(true, expiring, b"k", b""), expected);
    }

    #[test]
    fn any_bytes_are_told_apart() {
        let escaped = line(true, STAMP, b"a\"b\\c\n", "\r\t\0\u{1f}\u{7f}\u{2028}\u{1f600}".as_bytes());
        let expected =
            "{\"key\":\"a\\\"b\\\\c\\n\",ETAG,\"value\":\"\\r\\t\\u0000\\u001f\u{7f}\u{2028}\u{1f600}\"}\n";
        assert_eq!(escaped, expected.replace("ETAG", ETAG));
        let bytes = line(true, STAMP, b"\xff", b"\xfe\xfd");
        assert_eq!(bytes, format!("{{\"key_base64\":\"/w==\",{ETAG},\"value_base64\":\"/v0=\"}}\n"));
    }

    /// A control character becomes six: a slow client held 2 MiB for that, beside what was written.
    #[test]
    fn a_line_that_was_long_takes_no_memory_behind_it() {
        let (mut out, mut records) = (Vec::new(), JsonRecords::new(Framing::Plain, true));
        let value = vec![0; 255 << 10];
        records.record(&mut out, b"k", STAMP, &value);
        assert!(out.len() > 6 * value.len());
        assert!(records.line.capacity() <= LINE_BYTES_KEPT, "{}", records.line.capacity());
    }

    #[test]
    fn a_large_value_is_one_chunk_and_one_line() {
        let value = b"deep and cold";
        for cut in 0..=value.len() {
            let (mut out, mut records) = (Vec::new(), JsonRecords::new(Framing::Chunked, true));
            records.begin_large(&mut out, b"k", STAMP, value.len() as u64);
            records.large(&mut out, &value[..cut]);
            records.large(&mut out, &value[cut..]);
            records.end_large(&mut out);
            let line = format!("{{\"key\":\"k\",{ETAG},\"value_base64\":\"ZGVlcCBhbmQgY29sZA==\"}}\n");
            let chunk = format!("{:x}\r\n{line}\r\n", line.len());
            assert_eq!(str::from_utf8(&out), Ok(&chunk[..]), "cut at {cut}");
        }
    }
}
