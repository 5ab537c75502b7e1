use ladoga_model::Version;

/// `"`, 16 digits, `-`, 4 digits, `"`.
const ETAG_BYTES: usize = 1 + 16 + 1 + 4 + 1;

/// The version of a cell as a strong entity tag: `"<timestamp>-<node>"`, both in lower-case hexadecimal digits. Two values with
/// the same tag are the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ETag([u8; ETAG_BYTES]);

impl ETag {
    /// The text of the header field.
    pub(crate) fn as_str(&self) -> &str {
        str::from_utf8(&self.0).expect("digits, a dash and quotes")
    }

    /// The text between the quotes.
    pub(super) fn opaque(&self) -> &[u8] {
        &self.0[1..ETAG_BYTES - 1]
    }

    /// The version, from the text between the quotes; `None` if no cell can have had this tag.
    pub(crate) fn parse(opaque: &[u8]) -> Option<Version> {
        let (timestamp, rest) = opaque.split_at_checked(16)?;
        let (dash, node) = rest.split_at_checked(1)?;
        let is_one = dash == b"-" && node.len() == 4;
        is_one.then_some(Version { timestamp: number(timestamp)?, node: number(node)? as u16 })
    }
}

impl From<Version> for ETag {
    fn from(version: Version) -> ETag {
        let mut text = [b'"'; ETAG_BYTES];
        write_digits(&mut text[1..17], version.timestamp);
        text[17] = b'-';
        write_digits(&mut text[18..22], u64::from(version.node));
        ETag(text)
    }
}

fn write_digits(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b"0123456789abcdef"[number as usize & 0xf];
        number >>= 4;
    }
}

/// Of one length and in lower case only: there is one way to write it.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |number: u64, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_way_to_write_a_version() {
        let versions =
            [Version::ZERO, Version::MAX, Version { timestamp: 0x0019_abcd_ef01_2345, node: 0x2a }];
        let texts = ["\"0000000000000000-0000\"", "\"ffffffffffffffff-ffff\"", "\"0019abcdef012345-002a\""];
        for (version, text) in versions.into_iter().zip(texts) {
            assert_eq!(ETag::from(version).as_str(), text);
            assert_eq!(ETag::parse(text.trim_matches('"').as_bytes()), Some(version));
        }
    }

    #[test]
    fn anything_else_is_no_version() {
        for text in [
            "",
            "0019abcdef012345",
            "0019abcdef012345-",
            "0019abcdef012345-2a",
            "0019abcdef012345-002A",
            "0019ABCDEF012345-002a",
            "0019abcdef012345-002a ",
            "0019abcdef012345_002a",
            "+019abcdef012345-002a",
            "0019abcdef012345-002a0",
        ] {
            assert_eq!(ETag::parse(text.as_bytes()), None, "{text}");
        }
    }
}
