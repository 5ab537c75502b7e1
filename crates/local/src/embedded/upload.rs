use bytes::Bytes;
use ladoga_storage::{BlobWriter, Error, FinishedBlob};

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
            writer.write(&bytes).map_err(|error| upload_error(&error))?;
            Ok(writer)
        });
        Box::pin(async move { Ok(EmbeddedUpload::new(written.await?, disk)) })
    }

    fn finish(self) -> Later<Result<FinishedBlob, StoreError>> {
        let EmbeddedUpload { writer, disk } = self;
        disk.submit(move || writer.finish().map_err(|error| upload_error(&error)))
    }
}

/// What an error of a large value is to a client. The log has it, too, unless it says that there is no room: that is a state, which is
/// told where it begins.
pub(super) fn upload_error(error: &Error) -> StoreError {
    if !error.is_disk_full() {
        tracing::error!(%error, "a large value could not be written");
    }
    write_error(error)
}
