use std::path::PathBuf;
use std::sync::Arc;

use ladoga_env::Disk;
use ladoga_storage::{Blob, LargeValue, OfflineStore, StoreFile};

use crate::error::Error;
use crate::view::View;

/// A large value in a file that is called something else than in a data directory.
pub(crate) struct ViewedLarge {
    view: Arc<View>,
    pub(crate) blob: Blob,
}

impl ViewedLarge {
    pub(crate) fn new(disk: &Arc<dyn Disk>, value: LargeValue, path: PathBuf) -> ViewedLarge {
        let view = View::new(disk, 0, [(StoreFile::Blob(value.file), path)]);
        let blob = OfflineStore::large_value(Arc::clone(&view) as _, view.dir(), value);
        ViewedLarge { view, blob }
    }

    /// An error about the file that it is really about.
    pub(crate) fn named(&self, error: ladoga_storage::Error) -> Error {
        Error::Store(self.view.named(error))
    }
}

/// Verifies that a file holds all of a large value.
pub(crate) fn check_large(disk: &Arc<dyn Disk>, value: LargeValue, path: PathBuf) -> Result<(), Error> {
    let view = View::new(disk, 0, [(StoreFile::Blob(value.file), path)]);
    OfflineStore::check_large_value(Arc::clone(&view) as _, view.dir(), value)
        .map_err(|error| Error::Store(view.named(error)))
}
