use std::fmt;
use std::str::FromStr;

use crate::listing::{Tag, hex_128};

/// How a file is called in the repository: what its node called it, and what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoredName {
    /// What stands for it as long as nobody has read it.
    pub tag: Tag,
    /// XXH3 of its bytes.
    pub hash: u128,
}

impl fmt::Display for StoredName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:032x}", self.tag, self.hash)
    }
}

impl FromStr for StoredName {
    type Err = ();

    fn from_str(text: &str) -> Result<StoredName, ()> {
        let (tag, hash) = text.split_once('-').ok_or(())?;
        Ok(StoredName { tag: tag.parse()?, hash: hex_128(hash).ok_or(())? })
    }
}

const ID_PATTERN: &[u8] = b"0000-00-00T00-00-00Z";

/// Whether this is the name of a backup, such as `2026-11-23T12-00-05Z`: so it leads into no other directory.
pub(super) fn is_id(text: &str) -> bool {
    let is_as_named = |(byte, pattern): (u8, u8)| match pattern {
        b'0' => byte.is_ascii_digit(),
        other => byte == other,
    };
    text.len() == ID_PATTERN.len() && text.bytes().zip(ID_PATTERN.iter().copied()).all(is_as_named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_nothing_else_is() {
        let name = StoredName { tag: Tag(7), hash: u128::MAX };
        assert_eq!(name.to_string().parse(), Ok(name));
        for text in ["", "-", "a-b", &name.to_string().to_uppercase(), &format!("{}.new", name.tag)] {
            assert_eq!(text.parse::<StoredName>(), Err(()), "{text}");
        }
        assert!(is_id("2026-11-23T12-00-05Z"));
        for text in ["", "2026-11-23T12:00:05Z", "../../../../../../../x", "2026-11-23T12-00-05", "latest"] {
            assert!(!is_id(text), "{text}");
        }
    }
}
