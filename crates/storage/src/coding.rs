//! Fixed-width little-endian integers and length-prefixed bytes, read from bytes that may be damaged; the hash of keys.

pub(crate) use ladoga_model::Reader;
use xxhash_rust::xxh3::xxh3_64;

/// The hash by which memtables, filters and blocks find a key. Stable on disk: never change it.
#[inline]
pub(crate) fn key_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Appends bytes behind their `u16` length; callers bound the length.
pub(crate) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("callers bound the length");
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// A little-endian `u16` at `offset`, which the caller has checked to be inside.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    u16::from_le_bytes([bytes[offset], bytes[offset + 1]])
}

/// A little-endian `u32` at `offset`, which the caller has checked to be inside.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

/// The first eight bytes of `bytes` as a number that orders as they do, padded with zeros.
#[inline]
pub(crate) fn head_u64(bytes: &[u8]) -> u64 {
    if let Some(word) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*word);
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(word)
}

/// How many bytes two strings share at their beginning.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_order_as_their_bytes() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"ab", b"abcdefgh", b"b"];
        for pair in keys.windows(2) {
            assert!(head_u64(pair[0]) <= head_u64(pair[1]));
        }
        assert_eq!(common_prefix(b"abc", b"abd"), 2);
    }
}
