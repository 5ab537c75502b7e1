use ladoga_model::Version;

/// `"`, 16 digits, `-`, 4 digits, `"`.
const ETAG_BYTES: usize = 1 + 16 + 1 + 4 + 1;

/// The version of a cell as a strong entity tag: `"<timestamp>-<node>"`, both in lower-case hexadecimal digits. Two values with
/// the same tag are the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ETag([u8; ETAG_BYTES]);

impl ETag {
    /// The text of the header field.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
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
        text[1..9].copy_from_slice(&digits((version.timestamp >> 32) as u32));
        text[9..17].copy_from_slice(&digits(version.timestamp as u32));
        text[17] = b'-';
        text[18..22].copy_from_slice(&digits(u32::from(version.node))[4..]);
        ETag(text)
    }
}

/// A number in hexadecimal digits, all of them at once: each half of a byte gets a byte of its own, and becomes its digit there.
fn digits(number: u32) -> [u8; 8] {
    let mut halves = u64::from(number);
    halves = (halves | halves << 16) & 0x0000_ffff_0000_ffff;
    halves = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    halves = (halves | halves << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    // A half of ten or more, and six, are sixteen or more: its digit is a letter.
    let letters = (halves + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    let to_letter = u64::from(b'a' - b'0' - 10);
    (halves + 0x3030_3030_3030_3030 + letters * to_letter).to_be_bytes()
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
            [Version::ZERO, Version::MAX, Version { timestamp: 0x6789_abcd_ef01_2345, node: 0x2a }];
        let texts = ["\"0000000000000000-0000\"", "\"ffffffffffffffff-ffff\"", "\"6789abcdef012345-002a\""];
        for (version, text) in versions.into_iter().zip(texts) {
            assert_eq!(ETag::from(version).as_bytes(), text.as_bytes());
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
