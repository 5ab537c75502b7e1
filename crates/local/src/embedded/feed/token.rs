//! ```text
//! token := hex of: 1 u8, feed u64, place | 2 u8, cluster u64, ring u64, at u64, place      numbers big-endian, never change
//! place := since u64, [up_to u64, key], check u32
//! check := the low half of the xxh3 of what precedes it
//! ```

use bytes::Bytes;
use ladoga_model::KEY_BYTES_MAX;
use xxhash_rust::xxh3::xxh3_64;

const OF_DIRECTORY: u8 = 1;
const OF_CLUSTER: u8 = 2;
const NUMBERS_MAX: usize = 5;
const CHECK_BYTES: usize = 4;
const HEX: &[u8; 16] = b"0123456789abcdef";

/// A place in a feed, as clients keep it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    /// Of which feed.
    pub(super) feed: FeedName,
    /// Everything up to this timestamp was told.
    pub(super) since: u64,
    /// How far the tables were read for what comes after it, if they were being read.
    pub(super) scanned: Option<Scanned>,
}

/// Who understands a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FeedName {
    /// The data directory of a node on its own.
    Directory(u64),
    /// Every node of a cluster.
    Cluster {
        /// Which one.
        cluster: u64,
        /// The ring that this was a place of, for as long as there is one.
        ring: u64,
        /// Which place.
        at: u64,
    },
}

/// A part of the tables that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Scanned {
    /// Of the keys before the one below, everything up to this timestamp was told, too.
    pub(super) up_to: u64,
    /// Empty if all were read, and the ring may tell some of that again: to whoever does not have that ring, it is as if none was.
    pub(super) key: Bytes,
}

impl Scanned {
    /// All keys were read, and everything up to this timestamp was told.
    pub(super) const fn all(up_to: u64) -> Scanned {
        Scanned { up_to, key: Bytes::new() }
    }
}

impl Token {
    pub(super) fn encode(&self) -> Box<str> {
        let mut bytes = Vec::new();
        let mut put = |numbers: &[u64]| {
            numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
        };
        let format = match self.feed {
            FeedName::Directory(feed) => {
                put(&[feed]);
                OF_DIRECTORY
            }
            FeedName::Cluster { cluster, ring, at } => {
                put(&[cluster, ring, at]);
                OF_CLUSTER
            }
        };
        put(&[self.since]);
        if let Some(Scanned { up_to, key }) = &self.scanned {
            put(&[*up_to]);
            bytes.extend_from_slice(key);
        }
        bytes.insert(0, format);
        text_of(&bytes).into_iter().map(char::from).collect()
    }

    /// `None` if the text is no token.
    pub(super) fn decode(text: &[u8]) -> Option<Token> {
        let (pairs, []) = text.as_chunks::<2>() else { return None };
        // Whatever is longer has no key that could be.
        if pairs.len() > 1 + NUMBERS_MAX * 8 + KEY_BYTES_MAX + 1 + CHECK_BYTES {
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
        let (&format, rest) = bytes.split_first()?;
        let (first, rest) = number(rest)?;
        let (feed, rest) = match format {
            OF_DIRECTORY => (FeedName::Directory(first), rest),
            OF_CLUSTER => {
                let (ring, rest) = number(rest)?;
                let (at, rest) = number(rest)?;
                (FeedName::Cluster { cluster: first, ring, at }, rest)
            }
            _ => return None,
        };
        let (since, rest) = number(rest)?;
        let scanned = match number(rest) {
            Some((up_to, key)) if key.len() <= KEY_BYTES_MAX + 1 => {
                Some(Scanned { up_to, key: Bytes::copy_from_slice(key) })
            }
            None if rest.is_empty() => None,
            Some(_) | None => return None,
        };
        Some(Token { feed, since, scanned })
    }
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

/// The text of a token that stands for these bytes and their checksum, whatever they are: what a fuzzer begins from.
pub fn text_of(bytes: &[u8]) -> Vec<u8> {
    let check = (xxh3_64(bytes) as u32).to_be_bytes();
    let digits = bytes.iter().chain(&check).flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| HEX[usize::from(digit)]).collect()
}

/// Reads whatever is in `bytes` as a token, once as text and once as what text stands for: what a fuzzer calls.
///
/// # Panics
/// If a token can be spelled in two ways.
pub fn fuzz(bytes: &[u8]) {
    for text in [bytes, &text_of(bytes)] {
        if let Some(token) = Token::decode(text) {
            assert_eq!(token.encode().as_bytes(), text, "a token has one spelling");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_decoded_is_what_was_encoded_and_other_bytes_are_none(
            of: (u64, Option<(u64, u64)>), since: u64, up_to: u64,
            key in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..64)), at: usize, digit in 0..16_usize,
        ) {
            let scanned = key.map(|key| Scanned { up_to, key: Bytes::from(key) });
            let feed = match of {
                (feed, None) => FeedName::Directory(feed),
                (cluster, Some((ring, at))) => FeedName::Cluster { cluster, ring, at },
            };
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
            fuzz(&bytes);
        }
    }

    #[test]
    fn no_key_is_too_long_and_nothing_longer_is_read() {
        for feed in [FeedName::Directory(1), FeedName::Cluster { cluster: 1, ring: 2, at: 3 }] {
            let token = |bytes| {
                let scanned = Some(Scanned { up_to: 1, key: Bytes::from(vec![7; bytes]) });
                Token { feed, since: 0, scanned }.encode()
            };
            assert!(
                Token::decode(token(KEY_BYTES_MAX + 1).as_bytes()).is_some(),
                "the key behind the longest"
            );
            assert!(Token::decode(token(KEY_BYTES_MAX + 2).as_bytes()).is_none());
        }
    }
}
