use std::path::Path;

use ladoga_model::Quote;

use super::index::IndexFormat;
use super::stored::BlockHandle;
use crate::coding::Reader;
use crate::error::Error;

const MAGIC: &[u8; 8] = b"LADOGAST";
/// 3 has indexes whose separators share what they have in common; 2 has blocks with padding; all else is as in 1.
const FORMAT: u32 = 3;
/// Up to this one, indexes have separators as a whole.
const FORMAT_OF_WHOLE_SEPARATORS: u32 = 2;
pub(crate) const FOOTER_BYTES: usize = 3 * 12 + 4 + 4 + 8;

/// The end of a table: where everything else is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub filter: BlockHandle,
    pub index: BlockHandle,
    pub properties: BlockHandle,
    format: u32,
}

impl Footer {
    pub(super) const fn new(filter: BlockHandle, index: BlockHandle, properties: BlockHandle) -> Footer {
        Footer { filter, index, properties, format: FORMAT }
    }

    /// The footer of a table of an earlier format.
    #[cfg(test)]
    pub(super) const fn of_format(self, format: u32) -> Footer {
        Footer { format, ..self }
    }

    /// The encoding of the index in the file.
    pub(crate) const fn index_format(&self) -> IndexFormat {
        if self.format <= FORMAT_OF_WHOLE_SEPARATORS { IndexFormat::Whole } else { IndexFormat::Shared }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        for handle in [self.filter, self.index, self.properties] {
            out.extend_from_slice(&handle.offset.to_le_bytes());
            out.extend_from_slice(&handle.size.to_le_bytes());
        }
        out.extend_from_slice(&self.format.to_le_bytes());
        let crc = crc32c::crc32c(&out[start..]);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(MAGIC);
    }

    /// Checks the last bytes of a file of `file_bytes` bytes.
    pub(crate) fn decode(path: &Path, file_bytes: u64, bytes: &[u8]) -> Result<Footer, Error> {
        let offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let corrupt = |what, expected: String, found: String| Error::Corruption {
            path: path.into(),
            offset,
            what,
            expected,
            found,
        };
        let mut reader = Reader::new(bytes);
        let mut handle = || Some(BlockHandle { offset: reader.u64()?, size: reader.u32()? });
        let (filter, index, properties) = (handle(), handle(), handle());
        let (format, crc, magic) = (reader.u32(), reader.u32(), reader.bytes(8));
        let (Some(filter), Some(index), Some(properties), Some(format), Some(crc), Some(magic)) =
            (filter, index, properties, format, crc, magic)
        else {
            let (expected, found) = (format!("{FOOTER_BYTES} bytes"), format!("{} bytes", bytes.len()));
            return Err(corrupt("table footer", expected, found));
        };
        if magic != MAGIC {
            return Err(corrupt("table magic", Quote::of(MAGIC).to_string(), Quote::of(magic).to_string()));
        }
        let computed = crc32c::crc32c(&bytes[..FOOTER_BYTES - 12]);
        if crc != computed {
            return Err(corrupt("footer checksum", format!("{computed:#010x}"), format!("{crc:#010x}")));
        }
        if format > FORMAT {
            return Err(Error::NewerFormat { path: path.into(), found: format, supported: FORMAT });
        }
        for handle in [filter, index, properties] {
            if handle.offset.saturating_add(handle.size.into()) > offset {
                let found = format!("{} bytes at offset {}", handle.size, handle.offset);
                return Err(corrupt("block handle", format!("a block before offset {offset}"), found));
            }
        }
        Ok(Footer { filter, index, properties, format })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_is_found() {
        let handle = |offset| BlockHandle { offset, size: 10 };
        let footer = Footer::new(handle(0), handle(10), handle(20));
        let mut bytes = Vec::new();
        footer.encode(&mut bytes);
        assert_eq!(bytes.len(), FOOTER_BYTES);
        let size = 30 + FOOTER_BYTES as u64;
        assert_eq!(Footer::decode(Path::new("t"), size, &bytes).expect("intact"), footer);
        assert!(Footer::decode(Path::new("t"), size - 1, &bytes).is_err(), "a handle beyond the file");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(Path::new("t"), size, &flipped).is_err(), "bit {bit}");
        }
        *bytes.last_mut().expect("a footer") = 0xfe;
        let told = Footer::decode(Path::new("t"), size, &bytes).expect_err("no magic").to_string();
        let expected = r"t is corrupt at offset 30: table magic: expected 'LADOGAST', found 'LADOGAS\xfe'";
        assert_eq!(told, expected);
    }
}
