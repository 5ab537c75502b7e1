//! Members of JSON objects, as ranges and batches have them.

use ladoga_model::Version;

use super::base64::Base64;
use super::etag::ETag;

/// Writes the version of a cell as `etag`, and when it expires as `expires_ms`, if it does; behind another member.
pub(super) fn put_stamp(out: &mut Vec<u8>, version: Version, expires_at_ms: u64) {
    let etag = ETag::from(version);
    let opaque = etag.as_str().trim_matches('"');
    out.extend_from_slice(format!(",\"etag\":\"\\\"{opaque}\\\"\"").as_bytes());
    if expires_at_ms != 0 {
        out.extend_from_slice(format!(",\"expires_ms\":{expires_at_ms}").as_bytes());
    }
}

/// Writes bytes as a member of an object: as text where they are text.
pub(crate) fn put_bytes(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => {
            out.extend_from_slice(format!("\"{name}\":\"").as_bytes());
            put_escaped(out, text);
        }
        Err(_) => {
            out.extend_from_slice(format!("\"{name}_base64\":\"").as_bytes());
            let mut base64 = Base64::default();
            base64.put(out, bytes);
            base64.finish(out);
        }
    }
    out.push(b'"');
}

/// RFC 8259, 7: quotes, backslashes and control characters are escaped; anything else stands as it is.
pub(super) fn put_escaped(out: &mut Vec<u8>, text: &str) {
    let mut plain = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&text.as_bytes()[plain..index]);
        plain = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&text.as_bytes()[plain..]);
}
