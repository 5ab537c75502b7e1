use bytes::Bytes;
use ladoga_model::{Stamp, Version};

use crate::blob::BlobRef;
use crate::error::Error;
use crate::record::Kind;
use crate::value::{Cell, Value, large_value};

/// The newest cell of a key.
#[derive(Debug)]
pub(crate) enum Found {
    Cell { stamp: Stamp, kind: Kind, value: Bytes, blob: Option<BlobRef> },
    Nothing,
}

impl Found {
    pub(crate) fn version(&self) -> Version {
        match self {
            Found::Cell { stamp, .. } => stamp.version,
            Found::Nothing => Version::ZERO,
        }
    }

    /// The newer of this and a value of the record cache.
    pub(crate) fn or_newer(self, (stamp, value): (Stamp, Bytes)) -> Found {
        if stamp.version > self.version() {
            return Found::Cell { stamp, kind: Kind::Value, value, blob: None };
        }
        self
    }

    /// Its value.
    pub(crate) fn into_value(self) -> Result<Option<Value>, Error> {
        Ok(self.into_cell()?.and_then(|cell| cell.value))
    }

    /// The whole cell. Whether it has expired is decided by the caller, who knows the time.
    #[inline]
    pub(crate) fn into_cell(self) -> Result<Option<Cell>, Error> {
        match self {
            Found::Nothing => Ok(None),
            Found::Cell { stamp, kind: Kind::Tombstone, .. } => Ok(Some(Cell::tombstone(stamp))),
            Found::Cell { stamp, kind: Kind::Value, value, .. } => {
                Ok(Some(Cell { stamp, value: Some(Value::Inline(value)) }))
            }
            Found::Cell { stamp, kind: Kind::Blob, value, blob } => {
                Ok(Some(Cell { stamp, value: Some(large_value(&value, |_| blob)?) }))
            }
        }
    }
}
