//! What the keys and values of clients say.

use ladoga_service::parse_number;

pub(crate) type Key = Vec<u8>;

/// Whether a key is written by values that take the place of whatever is there.
pub(crate) fn is_plain(key: &[u8]) -> bool {
    key.starts_with(b"key")
}

/// Whether what a key holds is a number, as text.
pub(crate) fn is_counter(key: &[u8]) -> bool {
    key.starts_with(b"counter")
}

/// What a counter holds.
pub(crate) fn count_of(value: &[u8]) -> u64 {
    parse_number(value).and_then(|count| u64::try_from(count).ok()).expect("it is counted up from nothing")
}

/// The number of the request that wrote the value of any other key.
pub(crate) fn number_of(value: &[u8]) -> u64 {
    let (number, _) = value.split_first_chunk().expect("every value begins with the number of its request");
    u64::from_le_bytes(*number)
}
