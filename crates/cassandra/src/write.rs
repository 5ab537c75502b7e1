//! Plain writes: the newest timestamp wins.

use bytes::Bytes;
use ladoga_model::{Stamp, Version};
use ladoga_service::Error;

use crate::at::At;
use crate::clock::timestamp_of;
use crate::keyspace::UploadName;
use crate::lifetime::seconds_left;
use crate::row::{Mark, ValueColumn};

/// What is written under a key.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    /// A value that is in its row.
    Inline(Bytes),
    /// A value whose pieces are written already, and its length.
    InPieces(UploadName, u64),
}

impl Written {
    /// What is said about it in its row.
    pub(crate) fn mark(&self, stamp: Stamp) -> Mark {
        match self {
            Written::Inline(bytes) => Mark { stamp, length: bytes.len() as u64, upload: None },
            Written::InPieces(name, length) => Mark { stamp, length: *length, upload: Some(name.upload) },
        }
    }

    /// The column `value`.
    pub(crate) fn column(&self, version: Version) -> ValueColumn<'_> {
        let bytes = match self {
            Written::Inline(bytes) => &bytes[..],
            Written::InPieces(..) => &[],
        };
        ValueColumn { node: version.node, bytes }
    }
}

impl At {
    /// Stores a value.
    pub(crate) async fn put(&self, key: &[u8], value: &Written, stamp: Stamp) -> Result<Version, Error> {
        let values = (
            value.mark(stamp).encode(),
            value.column(stamp.version),
            self.keyspace.bucket(key),
            key,
            seconds_left(stamp.expires_at_ms, self.shared.clock.wall_ms()),
            timestamp_of(stamp.version),
        );
        self.run(&self.keyspace.entities.put, values, self.write()).await?;
        Ok(stamp.version)
    }

    /// Deletes a key.
    pub(crate) async fn delete(&self, key: &[u8], version: Version) -> Result<Version, Error> {
        let values = (timestamp_of(version), self.keyspace.bucket(key), key);
        self.run(&self.keyspace.entities.delete, values, self.write()).await?;
        Ok(version)
    }
}
