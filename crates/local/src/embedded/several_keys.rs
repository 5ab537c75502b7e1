//! What a write of several keys looks at is read before it is queued.

use bytes::Bytes;
use ladoga_storage::Cached;

use super::local::Local;
use super::read_error;
use crate::store::StoreError;

/// Of a write of several keys, so many are read from the disk at a time.
const KEYS_READ_AT_A_TIME: usize = 32;

impl Local {
    /// These keys, from the first one on that memory has no answer for.
    pub(super) fn first_on_disk_and_behind<'k>(&self, keys: &'k [Bytes]) -> Result<&'k [Bytes], StoreError> {
        for (number, key) in keys.iter().enumerate() {
            let found = self.engine.get_cell_cached(key, self.tier());
            if let Cached::NeedsDisk(_) = found.map_err(|error| read_error(&error))? {
                return Ok(&keys[number..]);
            }
        }
        Ok(&[])
    }

    /// Reads what memory does not have of these keys, a few at a time: there may be more than may wait for the disk, and with longer
    /// values than there is memory for. What does not stay in memory until the commit is read again there.
    pub(super) async fn read_ahead(&self, keys: &[Bytes]) -> Result<(), StoreError> {
        for keys in keys.chunks(KEYS_READ_AT_A_TIME) {
            let mut reads = Vec::with_capacity(keys.len());
            for key in keys {
                let found = self.engine.get_cell_cached(key, self.tier());
                if let Cached::NeedsDisk(read) = found.map_err(|error| read_error(&error))? {
                    reads.push(self.later(read, |_, _| Some(())));
                }
            }
            for read in reads {
                read.wait().await?;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}
