//! ```text
//! token := hex of: 1 u8, feed u64, since u64, [up_to u64, key], check u32           numbers big-endian, never change
//! check := the low half of the xxh3 of what precedes it
//! ```

use bytes::Bytes;
use ladoga_model::KEY_BYTES_MAX;
use xxhash_rust::xxh3::xxh3_64;

const FORMAT: u8 = 1;
const CHECK_BYTES: usize = 4;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A place in a feed, as clients keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Which feed.
    pub(super) feed: u64,
    /// Everything up to this timestamp was told.
    pub(super) since: u64,
    /// How far the tables were read for what comes after it, if they were being read.
    pub(super) scanned: Option<Scanned>,
}

/// A part of the tables that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Scanned {
    /// Of the keys before the one below, everything up to this timestamp was told, too.
    pub(super) up_to: u64,
    pub(super) key: Bytes,
}

impl Token {
    pub(super) fn encode(&self) -> Box<str> {
        let mut bytes = vec![FORMAT];
        bytes.extend_from_slice(&self.feed.to_be_bytes());
        bytes.extend_from_slice(&self.since.to_be_bytes());
        if let Some(Scanned { up_to, key }) = &self.scanned {
            bytes.extend_from_slice(&up_to.to_be_bytes());
            bytes.extend_from_slice(key);
        }
        let check = xxh3_64(&bytes) as u32;
        bytes.extend_from_slice(&check.to_be_bytes());
        let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        digits.map(|digit| char::from(HEX[usize::from(digit)])).collect()
    }

    /// `None` if the text is no token.
    pub(super) fn decode(text: &[u8]) -> Option<Token> {
        let (pairs, []) = text.as_chunks::<2>() else { return None };
        // Whatever is longer has no key that could be.
        if pairs.len() > 1 + 3 * 8 + KEY_BYTES_MAX + 1 + CHECK_BYTES {
            return None;
        }
        let digit = |text: u8| HEX.iter().position(|&digit| digit == text).map(|digit| digit as u8);
        let bytes: Option<Vec<u8>> =
            pairs.iter().map(|&[high, low]| Some((digit(high)? << 4) | digit(low)?)).collect();
        let bytes = bytes?;
        let (bytes, check) = bytes.split_last_chunk::<CHECK_BYTES>()?;
        if xxh3_64(bytes) as u32 != u32::from_be_bytes(*check) {
            return None;
        }
        let rest = bytes.strip_prefix(&[FORMAT])?;
        let (feed, rest) = number(rest)?;
        let (since, rest) = number(rest)?;
        let scanned = match number(rest) {
            Some((up_to, key)) => Some(Scanned { up_to, key: Bytes::copy_from_slice(key) }),
            None if rest.is_empty() => None,
            None => return None,
        };
        Some(Token { feed, since, scanned })
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_decoded_is_what_was_encoded_and_other_bytes_are_none(
            feed: u64, since: u64, up_to: u64,
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..64)), at: usize, digit in 0..16_usize,
        ) {
            let scanned = key.map(|key| Scanned { up_to, key: Bytes::from(key) });
            let token = Token { feed, since, scanned };
            let text = token.encode();
            prop_assert_eq!(Token::decode(text.as_bytes()), Some(token));
            for cut in 0..text.len() {
                prop_assert_eq!(Token::decode(&text.as_bytes()[..cut]), None);
            }
            let mut other = text.as_bytes().to_vec();
            let at = at % other.len();
            other[at] = HEX[digit];
            prop_assert_eq!(Token::decode(&other).is_some(), other == text.as_bytes());
        }

        #[test]
        fn any_bytes_are_a_token_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Token::decode(&bytes).is_none());
        }
    }

    #[test]
    fn no_key_is_too_long_and_nothing_longer_is_read() {
        let token = |bytes| {
            let scanned = Some(Scanned { up_to: 1, key: Bytes::from(vec![7; bytes]) });
            Token { feed: 1, since: 0, scanned }.encode()
        };
        assert!(Token::decode(token(KEY_BYTES_MAX + 1).as_bytes()).is_some(), "the key behind the longest");
        assert!(Token::decode(token(KEY_BYTES_MAX + 2).as_bytes()).is_none());
    }
}
