//! Fixed-width little-endian integers and length-prefixed bytes, read from bytes that nobody vouches for.

/// Unchecked bytes, read from the front. Every read answers `None` where there are too few.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes behind their `u16` length.
    pub(crate) fn short_bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.u16()?;
        self.bytes(usize::from(length))
    }
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
    fn too_few_bytes_are_no_value() {
        let mut reader = Reader::new(&[1, 0, 7]);
        assert_eq!(reader.u32(), None);
        assert_eq!(reader.u16(), Some(1));
        assert_eq!(reader.bytes(2), None);
        assert_eq!(reader.u8(), Some(7));
        assert_eq!(reader.remaining(), 0);
        assert_eq!(Reader::new(&[2, 0, 9]).short_bytes(), None);
    }

    #[test]
    fn heads_order_as_their_bytes() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"ab", b"abcdefgh", b"b"];
        for pair in keys.windows(2) {
            assert!(head_u64(pair[0]) <= head_u64(pair[1]));
        }
        assert_eq!(common_prefix(b"abc", b"abd"), 2);
    }
}
