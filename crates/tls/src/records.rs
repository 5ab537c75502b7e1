use std::io::{self, Read};

/// A record begins with its type, its version, and how many bytes follow (RFC 8446, 5.1).
const HEADER_BYTES: usize = 5;

/// Where in a record what has arrived ends. The library tells it of no record before all of it is there, but who begins one has begun
/// to ask for something.
#[derive(Debug, Default)]
pub(crate) struct Records {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    missing_bytes: usize,
}

impl Records {
    /// Whether a part of one is here, and the rest is not.
    pub(crate) const fn is_within_one(&self) -> bool {
        self.header_bytes > 0 || self.missing_bytes > 0
    }

    /// Reads from `io`, and notes what has arrived.
    pub(crate) fn watch<'w, I>(&'w mut self, io: &'w mut I) -> Watched<'w, I> {
        Watched { io, records: self }
    }

    fn arrived(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            if self.missing_bytes > 0 {
                let passed = self.missing_bytes.min(bytes.len());
                self.missing_bytes -= passed;
                bytes = &bytes[passed..];
                continue;
            }
            self.header[self.header_bytes] = *first;
            self.header_bytes += 1;
            if self.header_bytes == HEADER_BYTES {
                let [.., high, low] = self.header;
                (self.header_bytes, self.missing_bytes) = (0, usize::from(u16::from_be_bytes([high, low])));
            }
            bytes = rest;
        }
    }
}

/// What a session reads from.
pub(crate) struct Watched<'w, I> {
    io: &'w mut I,
    records: &'w mut Records,
}

impl<I: Read> Read for Watched<'_, I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.io.read(buffer)?;
        self.records.arrived(&buffer[..count]);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_where_a_record_ends_however_it_is_cut() {
        let stream = [&[23, 3, 3, 1, 2][..], &[0; 258], &[23, 3, 3, 0, 0], &[21, 3, 3, 0, 2, 1, 0]].concat();
        let ends = [0, 263, 268, 275];
        for step in [1, 2, 7, 300] {
            let (mut records, mut arrived) = (Records::default(), 0);
            let mut io = &stream[..];
            while arrived < stream.len() {
                let mut buffer = [0; 300];
                arrived += records.watch(&mut io).read(&mut buffer[..step]).expect("bytes");
                assert_eq!(records.is_within_one(), !ends.contains(&arrived), "{arrived} by {step}");
            }
        }
    }
}
