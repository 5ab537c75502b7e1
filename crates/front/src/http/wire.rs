use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use hyper::StatusCode;

use ladoga_service::RecordFormat;

/// What ends a chunked body.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Writes the head of an answer that hyper does not write.
pub(super) struct RawHead {
    text: String,
}

impl RawHead {
    pub(super) fn new(status: StatusCode, content_type: &str, wall_ms: u64) -> RawHead {
        let reason = status.canonical_reason().unwrap_or("Refused");
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_millis(wall_ms));
        let status = status.as_str();
        RawHead {
            text: format!("HTTP/1.1 {status} {reason}\r\ncontent-type: {content_type}\r\ndate: {date}\r\n"),
        }
    }

    pub(super) fn header(mut self, name: &str, value: &str) -> RawHead {
        // Writing to a string does not fail.
        let _ = write!(self.text, "{name}: {value}\r\n");
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.text.push_str("\r\n");
        self.text.into_bytes()
    }
}

/// Records as chunks: each one key, newline, value.
pub(crate) const CHUNKED_RECORDS: RecordFormat = RecordFormat {
    begin: |out, key, value_bytes| {
        out.extend_from_slice(format!("{:x}\r\n", key.len() as u64 + 1 + value_bytes).as_bytes());
        begin_record(out, key);
    },
    end: |out| out.extend_from_slice(b"\r\n"),
};

/// Records one after the other, for clients that know no chunks.
pub(crate) const PLAIN_RECORDS: RecordFormat =
    RecordFormat { begin: |out, key, _| begin_record(out, key), end: |_| {} };

fn begin_record(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(key);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_one_chunk() {
        let mut out = Vec::new();
        (CHUNKED_RECORDS.begin)(&mut out, b"key", 14);
        out.extend_from_slice(b"value of bytes");
        (CHUNKED_RECORDS.end)(&mut out);
        assert_eq!(out, b"12\r\nkey\nvalue of bytes\r\n");
    }

    #[test]
    fn a_raw_head_has_a_date() {
        let head = RawHead::new(StatusCode::OK, "a/b", 784_111_777_000).header("x", "y").finish();
        let expected =
            "HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\nx: y\r\n\r\n";
        assert_eq!(String::from_utf8(head).as_deref(), Ok(expected));
    }
}
