//! Frames: what nodes send each other, over one connection in both directions.
//!
//! ```text
//! frame := length u32, crc u32, request u32, kind u8, body          crc32c over request, kind and body
//! ```
//!
//! `length` counts `request`, `kind` and `body`. An answer has the number of its request.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// The newest version of the protocol that this node speaks, as `hello` says it. Never reused for another grammar.
pub const PROTOCOL_VERSION: u8 = 10;
/// The oldest one. Once a version has been released, the next release still speaks it, so that nodes can be replaced one by one.
pub const PROTOCOL_VERSION_MIN: u8 = 7;
/// The version of the protocol from which on `next` may pass over bytes.
pub(crate) const SKIPS_SINCE: u8 = 10;
/// The longest frame: a value that is not large, its key, and what stands around them.
pub const FRAME_BYTES_MAX: usize = 320 << 10;

/// The longest value that is sent in one frame; longer ones are streamed, in pieces that are no longer.
pub(crate) const INLINE_BYTES_MAX: u64 = 256 << 10;

const PREFIX_BYTES: usize = 8;
const HEADER_BYTES: usize = 5;

const _: () = assert!(PROTOCOL_VERSION_MIN <= PROTOCOL_VERSION && PROTOCOL_VERSION_MIN > 0);
const _: () = assert!(FRAME_BYTES_MAX as u64 > INLINE_BYTES_MAX + ladoga_model::KEY_BYTES_MAX as u64 + 256);

/// A frame with a valid length and checksum; nothing else is checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The number of the request.
    pub request: u32,
    /// What the body is.
    pub kind: u8,
    /// Not checked yet.
    pub body: Bytes,
}

impl Frame {
    /// How many bytes it was on the wire.
    pub(super) fn whole_bytes(&self) -> usize {
        PREFIX_BYTES + HEADER_BYTES + self.body.len()
    }
}

/// Why bytes are no frame: the connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length that cannot be.
    #[error("a frame of {found} bytes, expected {HEADER_BYTES} to {FRAME_BYTES_MAX}")]
    Length {
        /// The length that it gives.
        found: u64,
    },
    /// Other bytes than were sent.
    #[error("a frame with the checksum {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// The checksum of its bytes.
        expected: u32,
        /// The checksum that it gives.
        found: u32,
    },
    /// A body that does not fit its kind.
    #[error("a frame of kind {kind} and {bytes} bytes is malformed: {what}")]
    Body {
        /// The kind.
        kind: u8,
        /// The length of the body.
        bytes: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// The length of the first frame; `None` if that has not arrived yet.
pub(crate) fn frame_bytes(input: &[u8]) -> Option<usize> {
    let length = input.first_chunk::<PREFIX_BYTES>()?.first_chunk::<4>()?;
    Some((u32::from_le_bytes(*length) as usize).saturating_add(PREFIX_BYTES))
}

/// Takes the first frame off `input`, once it is there as a whole.
pub fn take_frame(input: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
    let Some(prefix) = input.first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let [l0, l1, l2, l3, c0, c1, c2, c3] = *prefix;
    let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    if !(HEADER_BYTES..=FRAME_BYTES_MAX).contains(&length) {
        return Err(FrameError::Length { found: length as u64 });
    }
    let whole = PREFIX_BYTES + length;
    if input.len() < whole {
        // Memory is reserved for what has arrived, not for what is announced.
        input.reserve((whole - input.len()).min(input.len()));
        return Ok(None);
    }
    let mut frame = input.split_to(whole).freeze();
    frame.advance(PREFIX_BYTES);
    let (expected, found) = (crc32c::crc32c(&frame), u32::from_le_bytes([c0, c1, c2, c3]));
    if expected != found {
        return Err(FrameError::Checksum { expected, found });
    }
    let request = frame.get_u32_le();
    let kind = frame.get_u8();
    Ok(Some(Frame { request, kind, body: frame }))
}

/// Appends a frame whose body `write` writes.
///
/// # Panics
/// If it is too long: callers bound what they send. Then nothing of it stays; half a frame would end the connection, and with it what
/// all others have asked over it.
pub(crate) fn put_frame(out: &mut BytesMut, request: u32, kind: u8, write: impl FnOnce(&mut BytesMut)) {
    let mut begun = Begun { whole_bytes: out.len(), out };
    let start = begun.whole_bytes;
    begun.out.put_u64_le(0);
    begun.out.put_u32_le(request);
    begun.out.put_u8(kind);
    write(begun.out);
    let (prefix, rest) = begun.out[start..].split_at_mut(PREFIX_BYTES);
    assert!(rest.len() <= FRAME_BYTES_MAX, "a frame of {} bytes; callers bound what they send", rest.len());
    prefix[..4].copy_from_slice(&(rest.len() as u32).to_le_bytes());
    prefix[4..].copy_from_slice(&crc32c::crc32c(rest).to_le_bytes());
    begun.whole_bytes = begun.out.len();
}

/// Frames of which the last one is being written: it is taken back if that ends by a panic.
struct Begun<'a> {
    out: &'a mut BytesMut,
    whole_bytes: usize,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.whole_bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn two_frames() -> BytesMut {
        let mut out = BytesMut::new();
        put_frame(&mut out, 7, 1, |out| out.put_slice(b"body"));
        put_frame(&mut out, 8, 2, |_| {});
        out
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let bytes = two_frames();
        for cut in 0..=bytes.len() {
            let mut input = BytesMut::new();
            let mut found = Vec::new();
            for part in [&bytes[..cut], &bytes[cut..]] {
                input.extend_from_slice(part);
                while let Some(frame) = take_frame(&mut input).expect("whole frames") {
                    found.push((frame.request, frame.kind, frame.body));
                }
            }
            assert_eq!(found, [(7, 1, Bytes::from_static(b"body")), (8, 2, Bytes::new())]);
        }
    }

    /// The peer closed the connection because of the half of it, whatever else was asked over it.
    #[test]
    fn nothing_stays_of_a_frame_that_is_too_long() {
        for write in [
            (|out: &mut BytesMut| out.put_bytes(0, FRAME_BYTES_MAX - HEADER_BYTES + 1)) as fn(&mut BytesMut),
            |_| panic!("half of the body cannot be written"),
        ] {
            let mut out = two_frames();
            let put = AssertUnwindSafe(|| put_frame(&mut out, 9, 3, write));
            assert!(catch_unwind(put).is_err());
            assert_eq!(out, two_frames());
        }
        let mut out = BytesMut::new();
        put_frame(&mut out, 9, 3, |out| out.put_bytes(0, FRAME_BYTES_MAX - HEADER_BYTES));
        assert!(take_frame(&mut out).expect("a frame").is_some());
    }

    #[test]
    fn any_changed_bit_is_found_out() {
        let mut bytes = BytesMut::new();
        put_frame(&mut bytes, 7, 1, |out| out.put_slice(b"body"));
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(take_frame(&mut changed), Ok(Some(_))), "bit {bit}");
        }
    }

    #[test]
    fn a_length_is_bounded_before_it_is_used() {
        for length in [0, 4, FRAME_BYTES_MAX as u32 + 1, u32::MAX] {
            let mut input = BytesMut::from(&length.to_le_bytes()[..]);
            input.put_u32_le(0);
            let error = take_frame(&mut input).expect_err("no such length");
            assert_eq!(error, FrameError::Length { found: u64::from(length) });
            assert!(input.capacity() < 1 << 10);
        }
    }
}
