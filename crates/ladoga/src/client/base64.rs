/// The bytes that a text in Base64 stands for (RFC 4648, 4), if it is one.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks(4) {
        let digits = four.iter().position(|&byte| byte == b'=').unwrap_or(four.len());
        if four.len() != 4 || digits < 2 || four[digits..].iter().any(|&byte| byte != b'=') {
            return None;
        }
        let bits = four[..digits].iter().try_fold(0, |bits: u32, &byte| Some(bits << 6 | digit(byte)?))?;
        let bits = bits << (6 * (4 - digits));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..digits]);
    }
    Some(bytes)
}

fn digit(byte: u8) -> Option<u32> {
    Some(match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648, 10.
    #[test]
    fn a_text_stands_for_bytes() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYmFy", b"foobar"),
            ("/w+A", b"\xff\x0f\x80"),
        ] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zg", "Zg=", "Z===", "====", "Zm9*", "Zg=A", "Zm9v\n"] {
            assert_eq!(from_base64(text), None, "{text}");
        }
    }
}
