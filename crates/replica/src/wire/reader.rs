use bytes::{Buf, Bytes};
use ladoga_model::{Stamp, VALUE_BYTES_MAX, Version, check_key};

use super::frame::{Frame, FrameError, INLINE_BYTES_MAX};

/// Takes a body apart, field by field; nothing is used before it is checked.
pub(super) struct Reader {
    kind: u8,
    bytes: usize,
    rest: Bytes,
}

impl Reader {
    pub(super) fn new(frame: &Frame) -> Reader {
        Reader { kind: frame.kind, bytes: frame.body.len(), rest: frame.body.clone() }
    }

    pub(super) fn wrong(&self, what: &'static str) -> FrameError {
        FrameError::Body { kind: self.kind, bytes: self.bytes, what }
    }

    fn need(&self, bytes: usize) -> Result<(), FrameError> {
        if self.rest.len() >= bytes { Ok(()) } else { Err(self.wrong("it ends too early")) }
    }

    pub(super) fn u8(&mut self) -> Result<u8, FrameError> {
        self.need(1)?;
        Ok(self.rest.get_u8())
    }

    pub(super) fn bool(&mut self) -> Result<bool, FrameError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.wrong("0 or 1 was expected")),
        }
    }

    pub(super) fn u16(&mut self) -> Result<u16, FrameError> {
        self.need(2)?;
        Ok(self.rest.get_u16_le())
    }

    pub(super) fn u32(&mut self) -> Result<u32, FrameError> {
        self.need(4)?;
        Ok(self.rest.get_u32_le())
    }

    pub(super) fn u64(&mut self) -> Result<u64, FrameError> {
        self.need(8)?;
        Ok(self.rest.get_u64_le())
    }

    pub(super) fn i64(&mut self) -> Result<i64, FrameError> {
        self.need(8)?;
        Ok(self.rest.get_i64_le())
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        self.need(N)?;
        let mut bytes = [0; N];
        self.rest.copy_to_slice(&mut bytes);
        Ok(bytes)
    }

    /// Bytes behind their length.
    pub(super) fn short_bytes(&mut self) -> Result<Bytes, FrameError> {
        let length = usize::from(self.u16()?);
        self.need(length)?;
        Ok(self.rest.split_to(length))
    }

    pub(super) fn key(&mut self) -> Result<Bytes, FrameError> {
        let key = self.short_bytes()?;
        check_key(&key).map_err(|_| self.wrong("a key of 1 to 4096 bytes was expected"))?;
        Ok(key)
    }

    /// Text that is printed on one line.
    pub(super) fn line(&mut self) -> Result<String, FrameError> {
        let text = self.short_bytes()?;
        let text = str::from_utf8(&text).map_err(|_| self.wrong("a text is not UTF-8"))?;
        Ok(text.replace(char::is_control, " "))
    }

    pub(super) fn version(&mut self) -> Result<Version, FrameError> {
        Ok(Version { timestamp: self.u64()?, node: self.u16()? })
    }

    /// A version that something has or is to get.
    pub(super) fn ballot(&mut self) -> Result<Version, FrameError> {
        let version = self.version()?;
        if version == Version::ZERO { Err(self.wrong("a version is zero")) } else { Ok(version) }
    }

    pub(super) fn stamp(&mut self) -> Result<Stamp, FrameError> {
        let version = self.ballot()?;
        Ok(Stamp { version, expires_at_ms: self.u64()?, copies: self.u8()? })
    }

    /// All that is left, as a value that fits into a frame.
    pub(super) fn value(self) -> Result<Bytes, FrameError> {
        if self.rest.len() as u64 > INLINE_BYTES_MAX {
            return Err(self.wrong("a value that is not large was expected"));
        }
        Ok(self.rest)
    }

    /// The length of a value.
    pub(super) fn value_bytes(&mut self) -> Result<u64, FrameError> {
        let bytes = self.u64()?;
        if bytes > VALUE_BYTES_MAX {
            Err(self.wrong("a value of at most 64 MiB was expected"))
        } else {
            Ok(bytes)
        }
    }

    /// All that is left.
    pub(super) fn rest(self) -> Bytes {
        self.rest
    }

    /// Hashes, up to the end.
    pub(super) fn hashes(&mut self) -> Result<Vec<u64>, FrameError> {
        if !self.rest.len().is_multiple_of(8) {
            return Err(self.wrong("hashes of eight bytes were expected"));
        }
        (0..self.rest.len() / 8).map(|_| self.u64()).collect()
    }

    /// What is left is of no use.
    pub(super) fn skip_rest(&mut self) {
        self.rest.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Nothing may be left.
    pub(super) fn end(self) -> Result<(), FrameError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.wrong("it goes on after its end")) }
    }
}
