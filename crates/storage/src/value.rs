use bytes::Bytes;
use ladoga_model::Stamp;

use crate::blob::{Blob, BlobRef};
use crate::error::Error;
use crate::record::{Kind, Record};

/// A value: here, or in a file of its own.
#[derive(Debug, Clone)]
pub enum Value {
    /// The bytes.
    Inline(Bytes),
    /// A large value, to be read piece by piece.
    Blob(Blob),
}

/// The newest cell of a key: its version, and its value where it has one.
#[derive(Debug, Clone)]
pub struct StoredCell {
    /// Its version.
    pub stamp: Stamp,
    /// `None` where it is a deletion, or has expired.
    pub value: Option<Value>,
}

impl Value {
    /// The length in bytes.
    pub fn len(&self) -> u64 {
        match self {
            Value::Inline(bytes) => bytes.len() as u64,
            Value::Blob(blob) => blob.len(),
        }
    }

    /// Whether it has no bytes. An empty value is a value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole value. May wait for the disk, and takes as much memory as the value is long.
    pub fn read(&self) -> Result<Bytes, Error> {
        let blob = match self {
            Value::Inline(bytes) => return Ok(bytes.clone()),
            Value::Blob(blob) => blob,
        };
        let mut whole = Vec::with_capacity(blob.len() as usize);
        while (whole.len() as u64) < blob.len() {
            whole.extend_from_slice(&blob.read_piece(whole.len() as u64)?);
        }
        Ok(Bytes::from(whole))
    }

    /// The value of a record that is no tombstone. `blob_ref` gives a reference to the file that the record names.
    pub(crate) fn of(
        record: &Record<'_>,
        blob_ref: impl FnOnce(u64) -> Option<BlobRef>,
    ) -> Result<Value, Error> {
        Value::from_parts(record.kind, record.value, Bytes::copy_from_slice, blob_ref)
    }

    pub(crate) fn from_parts(
        kind: Kind,
        value: &[u8],
        keep: impl FnOnce(&[u8]) -> Bytes,
        blob_ref: impl FnOnce(u64) -> Option<BlobRef>,
    ) -> Result<Value, Error> {
        if kind != Kind::Blob {
            return Ok(Value::Inline(keep(value)));
        }
        let pointer = crate::record::BlobPointer::decode(value).expect("checked when the record was decoded");
        match blob_ref(pointer.file) {
            Some(blob) => Ok(Value::Blob(Blob::new(blob, pointer))),
            None => Err(Error::Corruption {
                path: std::path::PathBuf::from(format!("blobs/{:06}.blob", pointer.file)),
                offset: 0,
                what: "blob reference",
                expected: "a blob file that its table or memtable lists".to_owned(),
                found: "none".to_owned(),
            }),
        }
    }
}
