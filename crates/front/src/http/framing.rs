/// What ends a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// How a body of unknown length is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Into chunks, each a record.
    Chunked,
    /// Not at all: it ends with the connection, for clients that know no chunks.
    Plain,
}

impl Framing {
    /// What comes before a record of so many bytes.
    pub(super) fn begin(self, out: &mut Vec<u8>, record_bytes: u64) {
        if self == Framing::Chunked {
            out.extend_from_slice(format!("{record_bytes:x}\r\n").as_bytes());
        }
    }

    /// What comes after it.
    pub(super) fn end(self, out: &mut Vec<u8>) {
        if self == Framing::Chunked {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// What comes after the last one.
    pub(crate) fn last(self, out: &mut Vec<u8>) {
        if self == Framing::Chunked {
            out.extend_from_slice(LAST_CHUNK);
        }
    }

    /// A record that is at hand.
    pub(crate) fn whole(self, out: &mut Vec<u8>, record: &[u8]) {
        self.begin(out, record.len() as u64);
        out.extend_from_slice(record);
        self.end(out);
    }
}
