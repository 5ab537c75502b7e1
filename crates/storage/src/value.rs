use bytes::Bytes;

use crate::blob::{Blob, BlobRef};
use crate::error::Error;
use crate::record::BlobPointer;

/// A value: here, or in a file of its own, to be read piece by piece.
pub type Value = ladoga_model::Value<Bytes, Blob>;

/// The newest cell of a key: its version, and its value if it has one.
pub type Cell = ladoga_model::Cell<Bytes, Blob>;

/// The whole value. May wait for the disk, and takes as much memory as the value is long.
pub fn read_value(value: &Value) -> Result<Bytes, Error> {
    let blob = match value {
        Value::Inline(bytes) => return Ok(bytes.clone()),
        Value::Large(blob) => blob,
    };
    let mut whole = Vec::with_capacity(blob.len() as usize);
    while (whole.len() as u64) < blob.len() {
        whole.extend_from_slice(&blob.read_piece(whole.len() as u64)?);
    }
    Ok(Bytes::from(whole))
}

/// The value of a record of the kind [`crate::record::Kind::Blob`], of which this is the value: `blob_ref` gives a reference to the file
/// that it names.
pub(crate) fn large_value(
    pointer: &[u8],
    blob_ref: impl FnOnce(u64) -> Option<BlobRef>,
) -> Result<Value, Error> {
    let pointer = BlobPointer::decode(pointer).expect("checked when the record was decoded");
    match blob_ref(pointer.file) {
        Some(blob) => Ok(Value::Large(Blob::new(blob, pointer))),
        None => Err(Error::Corruption {
            path: std::path::PathBuf::from(format!("blobs/{:06}.blob", pointer.file)),
            offset: 0,
            what: "blob reference",
            expected: "a blob file that its table or memtable lists".to_owned(),
            found: "none".to_owned(),
        }),
    }
}
