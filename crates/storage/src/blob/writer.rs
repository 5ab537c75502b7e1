use std::path::PathBuf;
use std::sync::Arc;

use ladoga_env::{File, OpenMode};
use ladoga_model::VALUE_BYTES_MAX;

use super::{BLOB_PIECE_BYTES, BlobRef, BlobRegistry, header, piece_crc, piece_offset};
use crate::error::Error;
use crate::record::BlobPointer;

/// Writes one large value to a file of its own, in any number of steps. Dropped unfinished, it leaves nothing.
///
/// Protocol: `write* finish`.
pub struct BlobWriter {
    file: Arc<dyn File>,
    blob: BlobRef,
    piece: Vec<u8>,
    pieces: u64,
    len: u64,
    crc: u32,
}

/// A blob file that is complete and on disk, to be named by [`crate::WriteBatch::put_blob`]. Once the last one who knows it
/// drops it, and no cell names it, its file is removed.
#[derive(Debug, Clone)]
pub struct FinishedBlob {
    blob: BlobRef,
    pointer: BlobPointer,
}

impl BlobWriter {
    pub(crate) fn create(registry: &Arc<BlobRegistry>, number: u64) -> Result<BlobWriter, Error> {
        let path = registry.path(number);
        let open = registry.disk().open(&path, OpenMode::CreateNew).map_err(Error::io("create", path));
        let file = open.inspect_err(|error| registry.tell_lack_of_room(error))?;
        // From here on the file goes away with the writer.
        let blob = registry.refer(number);
        let piece = Vec::with_capacity(BLOB_PIECE_BYTES + 4);
        let writer = BlobWriter { file, blob, piece, pieces: 0, len: 0, crc: 0 };
        writer.write_at(&header(number), 0)?;
        Ok(writer)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let write =
            || self.file.write_all_at(bytes, offset).map_err(Error::io_at("write", self.path(), offset));
        match write() {
            Err(error) if error.is_disk_full() && self.blob.registry().remove_kept_log() => write(),
            written => written,
        }
        .inspect_err(|error| self.blob.registry().tell_lack_of_room(error))
    }

    fn path(&self) -> PathBuf {
        self.blob.registry().path(self.blob.number())
    }

    /// Appends bytes of the value; may wait for the disk.
    ///
    /// # Panics
    /// If the value grows over the limit, which callers check.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        self.len += bytes.len() as u64;
        assert!(self.len <= VALUE_BYTES_MAX, "callers bound the value");
        while !bytes.is_empty() {
            let taken = bytes.len().min(BLOB_PIECE_BYTES - self.piece.len());
            self.piece.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.piece.len() == BLOB_PIECE_BYTES {
                self.write_piece()?;
            }
        }
        Ok(())
    }

    fn write_piece(&mut self) -> Result<(), Error> {
        self.blob.registry().admit_growth()?;
        let crc = piece_crc(self.blob.number(), self.pieces, &self.piece);
        self.piece.extend_from_slice(&crc.to_le_bytes());
        let offset = piece_offset(self.pieces);
        self.write_at(&self.piece, offset)?;
        // Written back as it comes, so that the sync at the end, and those of the log beside it, find little to do.
        self.file.start_writeback(offset, self.piece.len() as u64);
        self.crc = crc32c::crc32c_append(self.crc, &crc.to_le_bytes());
        self.pieces += 1;
        self.piece.clear();
        Ok(())
    }

    /// Makes the file durable, and its name.
    pub fn finish(mut self) -> Result<FinishedBlob, Error> {
        if !self.piece.is_empty() {
            self.write_piece()?;
        }
        self.file.sync_data().map_err(Error::io("sync", self.path()))?;
        self.blob.registry().sync_names()?;
        self.blob.registry().health().forget_lack();
        let pointer = BlobPointer { file: self.blob.number(), len: self.len, crc: self.crc };
        Ok(FinishedBlob { blob: self.blob, pointer })
    }
}

impl FinishedBlob {
    /// One that a cell names already, to be named by another one.
    pub(crate) const fn named(blob: BlobRef, pointer: BlobPointer) -> FinishedBlob {
        FinishedBlob { blob, pointer }
    }

    /// The length of the value.
    pub const fn value_bytes(&self) -> u64 {
        self.pointer.len
    }

    pub(crate) const fn pointer(&self) -> BlobPointer {
        self.pointer
    }

    pub(crate) fn into_ref(self) -> BlobRef {
        self.blob
    }
}
