use std::path::PathBuf;
use std::sync::Arc;
use std::sync::OnceLock;

use bytes::Bytes;
use ladoga_env::{File, OpenMode};
use ladoga_model::Quote;

use super::{
    BLOB_PIECE_BYTES, BlobRef, FinishedBlob, HEADER_BYTES, file_bytes, header, piece_crc, piece_offset,
};
use crate::coding::u32_at;
use crate::error::Error;
use crate::record::BlobPointer;

/// A large value on disk. Its file stays as long as this does, whatever happens to the key.
#[derive(Clone)]
pub struct Blob {
    blob: BlobRef,
    pointer: BlobPointer,
    file: OnceLock<Arc<dyn File>>,
}

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({}, {} bytes)", self.pointer.file, self.pointer.len)
    }
}

impl Blob {
    pub(crate) const fn new(blob: BlobRef, pointer: BlobPointer) -> Blob {
        Blob { blob, pointer, file: OnceLock::new() }
    }

    /// The length of the value in bytes.
    pub const fn len(&self) -> u64 {
        self.pointer.len
    }

    /// The same file, to be named by another cell as well: nothing is copied.
    pub fn to_name_again(&self) -> FinishedBlob {
        FinishedBlob::named(self.blob.clone(), self.pointer)
    }

    /// Whether the value has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.pointer.len == 0
    }

    /// Reads and checks the piece that begins at `offset` of the value: [`BLOB_PIECE_BYTES`], or fewer at the end. May wait for
    /// the disk.
    ///
    /// # Panics
    /// If `offset` is not a multiple of [`BLOB_PIECE_BYTES`] below the length.
    pub fn read_piece(&self, offset: u64) -> Result<Bytes, Error> {
        assert!(offset.is_multiple_of(BLOB_PIECE_BYTES as u64) && offset < self.pointer.len);
        let file = self.file()?;
        let index = offset / BLOB_PIECE_BYTES as u64;
        let length = (self.pointer.len - offset).min(BLOB_PIECE_BYTES as u64) as usize;
        let mut bytes = vec![0; length + 4];
        let at = piece_offset(index);
        file.read_exact_at(&mut bytes, at).map_err(|error| self.unread(at, error))?;
        let stored = u32_at(&bytes, length);
        bytes.truncate(length);
        let computed = piece_crc(self.pointer.file, index, &bytes);
        if stored != computed {
            return Err(self.corrupt(at, "blob piece checksum", computed, stored));
        }
        Ok(Bytes::from(bytes))
    }

    /// Reads everything and checks the pieces against each other and the pointer.
    pub(crate) fn verify(&self) -> Result<(), Error> {
        self.check_length()?;
        let mut crc = 0;
        let mut offset = 0;
        while offset < self.pointer.len {
            let piece = self.read_piece(offset)?;
            let piece_crc = piece_crc(self.pointer.file, offset / BLOB_PIECE_BYTES as u64, &piece);
            crc = crc32c::crc32c_append(crc, &piece_crc.to_le_bytes());
            offset += piece.len() as u64;
        }
        if crc != self.pointer.crc {
            return Err(self.corrupt(HEADER_BYTES, "blob checksum", self.pointer.crc, crc));
        }
        Ok(())
    }

    /// Checks that nothing follows the last piece. A missing piece is found when it is read.
    pub(crate) fn check_length(&self) -> Result<(), Error> {
        let expected = file_bytes(self.pointer.len);
        let path = || self.blob.registry().path(self.pointer.file);
        let found = self.file()?.len().map_err(|error| self.failed(Error::io("measure", path())(error)))?;
        if found <= expected {
            return Ok(());
        }
        let (what, expected_bytes) = ("blob length", format!("{expected} bytes"));
        let found = format!("{found} bytes");
        Err(Error::Corruption { path: path(), offset: expected, what, expected: expected_bytes, found })
    }

    fn file(&self) -> Result<&Arc<dyn File>, Error> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let path = self.blob.registry().path(self.pointer.file);
        let disk = self.blob.registry().disk();
        let file = disk.open(&path, OpenMode::Read).map_err(|error| self.unopened(error))?;
        let mut found = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut found, 0).map_err(|error| self.unread(0, error))?;
        let expected = header(self.pointer.file);
        if found[..7] == expected[..7] && found[7] > expected[7] {
            return Err(Error::NewerFormat { path, found: found[7].into(), supported: expected[7].into() });
        }
        if found != expected {
            let (expected, found) = (Quote::of(&expected).to_string(), Quote::of(&found).to_string());
            return Err(self.failed(Error::Corruption {
                path,
                offset: 0,
                what: "blob header",
                expected,
                found,
            }));
        }
        Ok(self.file.get_or_init(|| file))
    }

    /// Its file stays as long as this does, so one that is not there is lost.
    fn unopened(&self, error: std::io::Error) -> Error {
        let path = self.blob.registry().path(self.pointer.file);
        if error.kind() == std::io::ErrorKind::NotFound {
            return self.failed(missing_blob(path));
        }
        self.failed(Error::io("open", path)(error))
    }

    fn unread(&self, offset: u64, error: std::io::Error) -> Error {
        let path = self.blob.registry().path(self.pointer.file);
        if error.kind() == std::io::ErrorKind::UnexpectedEof {
            let expected = format!("{} bytes of a value", self.pointer.len);
            let found = "the end of the file".to_owned();
            return self.failed(Error::Corruption { path, offset, what: "blob length", expected, found });
        }
        self.failed(Error::io_at("read", path, offset)(error))
    }

    fn failed(&self, error: Error) -> Error {
        self.blob.registry().count_failed_read(&error);
        error
    }

    fn corrupt(&self, offset: u64, what: &'static str, expected: u32, found: u32) -> Error {
        self.failed(Error::Corruption {
            path: self.blob.registry().path(self.pointer.file),
            offset,
            what,
            expected: format!("{expected:#010x}"),
            found: format!("{found:#010x}"),
        })
    }
}

/// The error for a large value that a key has and that is not there.
pub(crate) fn missing_blob(path: PathBuf) -> Error {
    Error::Missing { path, although: "the value of a key is in it".to_owned() }
}
