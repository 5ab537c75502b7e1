use bytes::Bytes;
use ladoga_model::{Stamp, Version};

use crate::blob::BlobRef;
use crate::error::Error;
use crate::record::Kind;
use crate::value::{Cell, Value, value_from_parts};

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

    /// What a user sees of it at a time, in milliseconds since 1970.
    pub(crate) fn into_value(self, now_ms: impl FnOnce() -> u64) -> Result<Option<Value>, Error> {
        Ok(self.into_cell(now_ms)?.and_then(|cell| cell.value))
    }

    /// What a replica sees of it.
    #[inline]
    pub(crate) fn into_cell(self, now_ms: impl FnOnce() -> u64) -> Result<Option<Cell>, Error> {
        match self {
            Found::Nothing => Ok(None),
            Found::Cell { stamp, kind: Kind::Tombstone, .. } => Ok(Some(Cell::tombstone(stamp))),
            // Few cells expire: only for those it matters what time it is.
            Found::Cell { stamp, .. } if stamp.expires_at_ms != 0 && stamp.is_expired(now_ms()) => {
                Ok(Some(Cell::tombstone(stamp)))
            }
            Found::Cell { stamp, kind, value, blob } => {
                let keep = value.clone();
                let value = value_from_parts(kind, &value, move |_| keep, |_| blob)?;
                Ok(Some(Cell { stamp, value: Some(value) }))
            }
        }
    }
}
