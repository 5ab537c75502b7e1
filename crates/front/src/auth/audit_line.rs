use std::net::IpAddr;

use ladoga_access::moment_text;
use xxhash_rust::xxh3::xxh3_64;

/// How much of what was asked for is repeated. A key can be longer.
const WHAT_BYTES_MAX: usize = 512;

/// A line of the audit log:
///
/// ```text
/// {"time":"2026-11-23T12:00:00Z","who":"app","from":"10.0.0.7","what":"PUT /v0/entity?id=a","status":"403"}
/// ```
///
/// `who` is the name of a token, and `null` if none was shown that counts. What is longer than a line has place for is cut, and its
/// `hash` tells it from others with the same beginning.
pub(crate) struct AuditLine<'l> {
    pub(crate) wall_ms: u64,
    pub(crate) who: Option<&'l str>,
    pub(crate) from: Option<IpAddr>,
    pub(crate) what: &'l [u8],
    pub(crate) status: &'l str,
}

impl AuditLine<'_> {
    /// Whether it says that somebody was refused whom nobody knows. Such lines cost a stranger nothing.
    pub(super) fn is_of_a_stranger(&self) -> bool {
        self.who.is_none() && matches!(self.status, "401" | "403" | "429" | "refused")
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.what.len().min(WHAT_BYTES_MAX));
        out.extend_from_slice(b"{\"time\":\"");
        out.extend_from_slice(moment_text(self.wall_ms).as_bytes());
        out.extend_from_slice(b"\",\"who\":");
        member(&mut out, self.who);
        out.extend_from_slice(b",\"from\":");
        member(&mut out, self.from.map(|from| from.to_canonical().to_string()).as_deref());
        out.extend_from_slice(b",\"what\":");
        let shown = &self.what[..self.what.len().min(WHAT_BYTES_MAX)];
        member(&mut out, Some(&shown.escape_ascii().to_string()));
        if shown.len() < self.what.len() {
            out.extend_from_slice(format!(",\"hash\":\"{:016x}\"", xxh3_64(self.what)).as_bytes());
        }
        out.extend_from_slice(b",\"status\":");
        member(&mut out, Some(self.status));
        out.extend_from_slice(b"}\n");
        out
    }
}

fn member(out: &mut Vec<u8>, text: Option<&str>) {
    // Neither memory nor text can be refused.
    let _ = serde_json::to_writer(out, &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_json_whatever_it_is_about() {
        let long = vec![b'k'; WHAT_BYTES_MAX + 1];
        for (what, shown) in [
            (&b"PUT /v0/entity?id=a"[..], "PUT /v0/entity?id=a"),
            (b"SET \"\n\xff", "SET \\\"\\n\\xff"),
            (&long, &"k".repeat(WHAT_BYTES_MAX)),
        ] {
            let from = Some(IpAddr::from([127, 0, 0, 1]));
            let line = AuditLine { wall_ms: 0, who: Some("app"), from, what, status: "403" };
            let bytes = line.to_bytes();
            assert_eq!(bytes.split(|byte| *byte == b'\n').count(), 2, "one line, and nothing behind it");
            let read: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
            assert_eq!(read["what"], shown);
            assert_eq!((&read["who"], &read["from"]), (&"app".into(), &"127.0.0.1".into()));
            assert_eq!((&read["time"], &read["status"]), (&"1970-01-01T00:00:00Z".into(), &"403".into()));
            assert_eq!(read["hash"].is_string(), what.len() > WHAT_BYTES_MAX);
        }
        let nobody = AuditLine { wall_ms: 0, who: None, from: None, what: b"", status: "" };
        let read: serde_json::Value = serde_json::from_slice(&nobody.to_bytes()).expect("JSON");
        assert!(read["who"].is_null() && read["from"].is_null());
    }
}
