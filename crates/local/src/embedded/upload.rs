use bytes::Bytes;
use ladoga_storage::{BlobWriter, FinishedBlob};

use super::pool::DiskHandle;
use super::write_error;
use crate::store::{Later, StoreError, Upload};

/// A large value on its way into a blob file.
pub struct EmbeddedUpload {
    writer: BlobWriter,
    disk: DiskHandle,
}

impl EmbeddedUpload {
    pub(super) fn new(writer: BlobWriter, disk: DiskHandle) -> EmbeddedUpload {
        EmbeddedUpload { writer, disk }
    }
}

impl Upload for EmbeddedUpload {
    type Finished = FinishedBlob;

    fn write(self, bytes: Bytes) -> Later<Result<EmbeddedUpload, StoreError>> {
        let EmbeddedUpload { mut writer, disk } = self;
        let written = disk.submit(move || {
            writer.write(&bytes).map_err(|error| write_error(&error))?;
            Ok(writer)
        });
        Box::pin(async move { Ok(EmbeddedUpload::new(written.await?, disk)) })
    }

    fn finish(self) -> Later<Result<FinishedBlob, StoreError>> {
        let EmbeddedUpload { writer, disk } = self;
        disk.submit(move || writer.finish().map_err(|error| write_error(&error)))
    }
}
