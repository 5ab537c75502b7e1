use bytes::{BufMut, Bytes, BytesMut};
use ladoga_cluster::Origin;

use super::frame::{Frame, FrameError, put_frame};
use super::message::put_short;
use super::parts::{origin, origin_byte};
use super::reader::Reader;

/// The version of the protocol from which on a frame may have several reads.
pub(crate) const READS_SINCE: u8 = 8;

pub(super) const READ_KIND: u8 = 2;
pub(super) const READS_KIND: u8 = 21;
/// Reads in a frame, at most.
const READS_MAX: usize = 128;
/// A frame of this length gets no further read.
const READS_BYTES_ENOUGH: usize = 32 << 10;

/// Reads that are to go to a peer in one frame. Each keeps its own number, and gets its own answer.
#[derive(Default)]
pub(crate) struct Reads {
    count: usize,
    /// The body of the frame.
    body: BytesMut,
}

impl Reads {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn has_room(&self) -> bool {
        self.count < READS_MAX && self.body.len() < READS_BYTES_ENOUGH
    }

    /// Takes a read in, and answers how long it is.
    pub(crate) fn add(&mut self, number: u32, key: &[u8], what: (bool, Origin)) -> usize {
        let before = self.body.len();
        self.count += 1;
        self.body.put_u32_le(number);
        put_read(&mut self.body, key, what);
        self.body.len() - before
    }

    /// Appends their frame, if there are any, and begins anew.
    pub(crate) fn put(&mut self, out: &mut BytesMut) {
        match self.count {
            0 => return,
            // As every version knows it.
            1 => {
                let (number, body) = self.body.split_first_chunk().expect("a read begins with its number");
                put_frame(out, u32::from_le_bytes(*number), READ_KIND, |out| out.put_slice(body));
            }
            _ => put_frame(out, u32::MAX, READS_KIND, |out| out.put_slice(&self.body)),
        }
        self.clear();
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.body.clear();
    }
}

/// A read: of which key, whether the version does instead of a value, and what for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Read {
    pub(super) key: Bytes,
    pub(super) digest: bool,
    pub(super) origin: Origin,
}

pub(super) fn put_read(out: &mut BytesMut, key: &[u8], (digest, origin): (bool, Origin)) {
    out.put_u8(u8::from(digest));
    out.put_u8(origin_byte(origin));
    put_short(out, key);
}

pub(super) fn take_read(reader: &mut Reader) -> Result<Read, FrameError> {
    let (digest, origin) = (reader.bool()?, origin(reader)?);
    Ok(Read { key: reader.key()?, digest, origin })
}

/// Hands on each read of a frame with its number and how long it is. After an error, those before it are of no use either.
pub(super) fn take_reads(frame: &Frame, mut take: impl FnMut(u32, Read, usize)) -> Result<(), FrameError> {
    let mut reader = Reader::new(frame);
    let mut count = 0;
    while count == 0 || !reader.is_empty() {
        if count == READS_MAX {
            return Err(reader.wrong("it has too many reads"));
        }
        count += 1;
        let before = reader.left();
        let number = reader.u32()?;
        let read = take_read(&mut reader)?;
        take(number, read, before - reader.left());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::take_frame;

    fn key(number: u32) -> Bytes {
        Bytes::from(format!("key{number}"))
    }

    fn group(numbers: std::ops::Range<u32>) -> Frame {
        let mut reads = Reads::default();
        for number in numbers {
            assert!(reads.has_room());
            reads.add(number, &key(number), (number.is_multiple_of(2), Origin::Client));
        }
        let mut wire = BytesMut::new();
        reads.put(&mut wire);
        assert!(reads.is_empty() && reads.body.is_empty());
        let frame = take_frame(&mut wire).expect("a frame").expect("a whole one");
        assert!(wire.is_empty());
        frame
    }

    fn reads(frame: &Frame) -> Result<Vec<(u32, Read)>, FrameError> {
        let mut found = Vec::new();
        take_reads(frame, |number, read, _| found.push((number, read)))?;
        Ok(found)
    }

    fn read(number: u32) -> (u32, Read) {
        (number, Read { key: key(number), digest: number.is_multiple_of(2), origin: Origin::Client })
    }

    #[test]
    fn reads_come_out_as_they_went_in_each_with_its_number() {
        let one = group(7..8);
        assert_eq!((one.kind, one.request), (READ_KIND, 7));
        assert_eq!(take_read(&mut Reader::new(&one)), Ok(read(7).1));
        for count in [2, READS_MAX as u32] {
            let frame = group(0..count);
            assert_eq!(frame.kind, READS_KIND);
            assert_eq!(reads(&frame), Ok((0..count).map(read).collect()));
        }
        let mut lengths = 0;
        let frame = group(0..9);
        take_reads(&frame, |_, _, bytes| lengths += bytes).expect("reads");
        assert_eq!(lengths, frame.body.len(), "each is counted with its own bytes");
    }

    #[test]
    fn a_frame_is_full_by_reads_and_by_bytes() {
        let mut reads = Reads::default();
        for number in 0..READS_MAX as u32 {
            reads.add(number, b"k", (false, Origin::Client));
        }
        assert!(!reads.has_room());
        let mut reads = Reads::default();
        let key = [b'k'; ladoga_model::KEY_BYTES_MAX];
        let mut count = 0;
        while reads.has_room() {
            reads.add(count, &key, (false, Origin::Client));
            count += 1;
        }
        assert_eq!(count, 8);
    }

    #[test]
    fn a_body_that_is_no_list_of_reads_is_refused() {
        let frame = |body: &[u8]| Frame { request: 0, kind: READS_KIND, body: Bytes::copy_from_slice(body) };
        let whole = group(0..3).body;
        let ends = [12, 24, 36].map(|reads| reads * whole.len() / 36);
        for cut in 0..=whole.len() {
            let is_whole = ends.contains(&cut);
            assert_eq!(reads(&frame(&whole[..cut])).is_ok(), is_whole, "cut at {cut}");
        }
        let many = group(0..READS_MAX as u32).body;
        let error = reads(&frame(&[&many[..], &group(0..2).body].concat())).expect_err("too many");
        assert!(error.to_string().contains("too many reads"), "{error}");
    }
}
