use bytes::Bytes;
use ladoga_http1::StatusCode;
use ladoga_model::{Stamp, Version};
use ladoga_service::LargeValue;

use super::base64::{Base64, base64_bytes};
use super::framing::Framing;
use super::json::{put_bytes, put_escaped, put_stamp};
use super::refusal::Refusal;

/// The answer to a line of a batch, which is a line of JSON itself:
///
/// ```text
/// {"status":200,"etag":"\"0019abcdef012345-0000\"","expires_ms":1764000000000,"value":"deep"}
/// {"status":404,"error":"there is no value under this key"}
/// ```
///
/// `value_base64` in place of `value` has bytes that are no UTF-8, and a value that is not in memory always. A sum is the `value` of an
/// increment. `etag` and `expires_ms` are there if there is a version, and if the value expires.
pub(crate) struct LineAnswer {
    status: StatusCode,
    version: Option<Version>,
    expires_at_ms: u64,
    content: LineContent,
}

enum LineContent {
    Nothing,
    Value(Bytes),
    Large(LargeValue),
    Error(Bytes),
}

/// What comes after a large value.
const LARGE_END: &[u8] = b"\"}\n";

impl LineAnswer {
    /// With nothing but a status.
    pub(crate) const fn empty(status: StatusCode) -> LineAnswer {
        LineAnswer { status, version: None, expires_at_ms: 0, content: LineContent::Nothing }
    }

    /// The same about a cell of this version.
    pub(crate) fn with_version(self, version: Option<Version>) -> LineAnswer {
        LineAnswer { version, ..self }
    }

    /// `200` with a value.
    pub(crate) fn value(stamp: Stamp, value: Bytes) -> LineAnswer {
        let content = LineContent::Value(value);
        LineAnswer {
            status: StatusCode::OK,
            version: Some(stamp.version),
            expires_at_ms: stamp.expires_at_ms,
            content,
        }
    }

    /// `200` with the sum of an increment.
    pub(crate) fn sum(stamp: Stamp, sum: i64) -> LineAnswer {
        LineAnswer::value(stamp, Bytes::from(sum.to_string()))
    }

    /// `200` with a value that is not in memory.
    pub(crate) fn large(stamp: Stamp, value: LargeValue) -> LineAnswer {
        LineAnswer { content: LineContent::Large(value), ..LineAnswer::value(stamp, Bytes::new()) }
    }

    /// `424`: another line failed that it would have happened together with.
    pub(crate) fn dependent(reason: &'static str) -> LineAnswer {
        let content = LineContent::Error(Bytes::from_static(reason.as_bytes()));
        LineAnswer { content, ..LineAnswer::empty(StatusCode::FAILED_DEPENDENCY) }
    }

    pub(crate) const fn status(&self) -> StatusCode {
        self.status
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.content {
            LineContent::Value(bytes) | LineContent::Error(bytes) => bytes.len() as u64,
            LineContent::Nothing | LineContent::Large(_) => 0,
        }
    }

    /// Takes the value out that is not in memory, if that is what it has.
    pub(crate) fn take_large(&mut self) -> Option<LargeValue> {
        match std::mem::replace(&mut self.content, LineContent::Nothing) {
            LineContent::Large(large) => Some(large),
            content => {
                self.content = content;
                None
            }
        }
    }

    /// Writes it as a line.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        self.begin(out);
        match &self.content {
            // That is written piece by piece.
            LineContent::Nothing | LineContent::Large(_) => {}
            LineContent::Value(value) => {
                out.push(b',');
                put_bytes(out, "value", value);
            }
            LineContent::Error(text) => {
                out.extend_from_slice(b",\"error\":\"");
                put_escaped(out, &String::from_utf8_lossy(text));
                out.push(b'"');
            }
        }
        out.extend_from_slice(b"}\n");
    }

    fn begin(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"status\":");
        out.extend_from_slice(self.status.as_str().as_bytes());
        if let Some(version) = self.version {
            put_stamp(out, version, self.expires_at_ms);
        }
    }
}

/// The value of a line, on its way out piece by piece.
///
/// Protocol: `begin piece* end`.
pub(crate) struct LargeLine {
    framing: Framing,
    base64: Base64,
}

impl LargeLine {
    /// Begins a line with a value of so many bytes.
    pub(crate) fn begin(
        framing: Framing,
        answer: &LineAnswer,
        value_bytes: u64,
        out: &mut Vec<u8>,
    ) -> LargeLine {
        let mut line = Vec::new();
        answer.begin(&mut line);
        line.extend_from_slice(b",\"value_base64\":\"");
        framing.begin(out, (line.len() + LARGE_END.len()) as u64 + base64_bytes(value_bytes));
        out.extend_from_slice(&line);
        LargeLine { framing, base64: Base64::default() }
    }

    /// These bytes of the value.
    pub(crate) fn piece(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.base64.put(out, bytes);
    }

    /// The end of the line.
    pub(crate) fn end(mut self, out: &mut Vec<u8>) {
        self.base64.finish(out);
        out.extend_from_slice(LARGE_END);
        self.framing.end(out);
    }
}

impl From<Refusal> for LineAnswer {
    fn from(refusal: Refusal) -> LineAnswer {
        let (status, text, version) = refusal.into_parts();
        LineAnswer { status, version, expires_at_ms: 0, content: LineContent::Error(text) }
    }
}

#[cfg(test)]
mod tests {
    use ladoga_service::NoPieces;

    use super::*;

    const STAMP: Stamp = Stamp::new(Version { timestamp: 1, node: 2 });
    const ETAG: &str = "\"etag\":\"\\\"0000000000000001-0002\\\"\"";

    fn line(answer: &LineAnswer) -> String {
        let mut out = Vec::new();
        answer.write(&mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn an_answer_is_a_line() {
        let created = LineAnswer::empty(StatusCode::CREATED).with_version(Some(STAMP.version));
        assert_eq!(line(&created), format!("{{\"status\":201,{ETAG}}}\n"));
        let value = LineAnswer::value(Stamp { expires_at_ms: 17, ..STAMP }, Bytes::from("a\"\n"));
        let expected = format!("{{\"status\":200,{ETAG},\"expires_ms\":17,\"value\":\"a\\\"\\n\"}}\n");
        assert_eq!(line(&value), expected);
        let bytes = LineAnswer::value(STAMP, Bytes::from_static(b"\xff"));
        assert_eq!(line(&bytes), format!("{{\"status\":200,{ETAG},\"value_base64\":\"/w==\"}}\n"));
    }

    #[test]
    fn a_refusal_is_a_line_too() {
        let refused = LineAnswer::from(Refusal::bad_request("a \"key\""));
        assert_eq!(line(&refused), "{\"status\":400,\"error\":\"a \\\"key\\\"\"}\n");
        let failed = LineAnswer::from(Refusal::precondition_failed("stale", Some(STAMP.version)));
        assert_eq!(line(&failed), format!("{{\"status\":412,{ETAG},\"error\":\"stale\"}}\n"));
    }

    #[test]
    fn a_large_value_is_one_chunk_and_one_line() {
        let value = LargeValue { bytes: 13, pieces: Box::new(NoPieces) };
        let mut answer = LineAnswer::large(STAMP, value);
        assert_eq!(answer.take_large().map(|large| large.bytes), Some(13));
        assert!(answer.take_large().is_none());
        let mut out = Vec::new();
        let mut large = LargeLine::begin(Framing::Chunked, &answer, 13, &mut out);
        large.piece(b"deep and", &mut out);
        large.piece(b" cold", &mut out);
        large.end(&mut out);
        let line = format!("{{\"status\":200,{ETAG},\"value_base64\":\"ZGVlcCBhbmQgY29sZA==\"}}\n");
        let expected = format!("{:x}\r\n{line}\r\n", line.len());
        assert_eq!(str::from_utf8(&out), Ok(&expected[..]));
    }
}
