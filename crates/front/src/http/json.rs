//! Members of JSON objects, as ranges and batches have them.

use ladoga_model::Version;

use super::base64::Base64;
use super::etag::ETag;

/// Writes the version of a cell as `etag`, and when it expires as `expires_ms`, if it does; behind another member.
pub(super) fn put_stamp(out: &mut Vec<u8>, version: Version, expires_at_ms: u64) {
    out.extend_from_slice(b",\"etag\":\"\\\"");
    out.extend_from_slice(ETag::from(version).opaque());
    out.extend_from_slice(b"\\\"\"");
    if expires_at_ms != 0 {
        out.extend_from_slice(format!(",\"expires_ms\":{expires_at_ms}").as_bytes());
    }
}

/// Writes bytes as a member of an object: as text where they are text.
pub(crate) fn put_bytes(out: &mut Vec<u8>, name: &str, bytes: &[u8]) {
    match str::from_utf8(bytes) {
        Ok(text) => {
            out.push(b'"');
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":\"");
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
    for chunk in text.as_bytes().chunks(CHUNK_BYTES) {
        // Of nearly all chunks: many bytes at a time.
        if chunk.iter().fold(false, |any, &byte| any | is_escaped(byte)) {
            put_escaped_bytes(out, chunk);
        } else {
            out.extend_from_slice(chunk);
        }
    }
}

/// What is looked through for bytes that are escaped before it is written.
const CHUNK_BYTES: usize = 64;

const fn is_escaped(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Of a number below 16.
const fn hex(digit: u8) -> u8 {
    b"0123456789abcdef"[digit as usize]
}

fn put_escaped_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut plain = 0;
    for (index, &byte) in bytes.iter().enumerate().filter(|(_, byte)| is_escaped(**byte)) {
        out.extend_from_slice(&bytes[plain..index]);
        plain = index + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 0xf)]),
        }
    }
    out.extend_from_slice(&bytes[plain..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_again(text: &str) -> String {
        let mut out = b"{".to_vec();
        put_bytes(&mut out, "value", text.as_bytes());
        out.push(b'}');
        let read: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
        read["value"].as_str().expect("text").to_owned()
    }

    /// Wherever in a text they stand, and wherever it is cut into chunks.
    #[test]
    fn text_is_read_as_it_was_written() {
        let escaped: String = (0..0x20).chain([b'"', b'\\']).map(char::from).collect();
        for plain in ["", "a", "é", "€uro and more"].map(|text| text.repeat(20)) {
            for before in 0..=CHUNK_BYTES + 1 {
                for part in ["", "\"", "\\", "\u{0}\n", &escaped] {
                    let text = format!("{}{part}{plain}{part}", "x".repeat(before));
                    assert_eq!(read_again(&text), text);
                }
            }
        }
    }
}
