use std::future::ready;
use std::sync::Arc;

use ladoga_storage::Cached;
use parking_lot::Mutex;

use super::commit::Update;
use super::local::Local;
use super::queued::Unqueued;
use super::read_error;
use crate::store::{Later, StoreError};

/// What an update has decided, for whoever asked for it.
pub(super) struct Answer<R>(Arc<Mutex<Option<R>>>);

impl<R> Default for Answer<R> {
    fn default() -> Answer<R> {
        Answer(Arc::default())
    }
}

impl<R> Clone for Answer<R> {
    fn clone(&self) -> Answer<R> {
        Answer(Arc::clone(&self.0))
    }
}

impl<R> Answer<R> {
    pub(super) fn give(&self, decided: R) {
        *self.0.lock() = Some(decided);
    }

    /// After what was decided is written.
    pub(super) fn take(&self) -> R {
        self.0.lock().take().expect("what is written was decided")
    }
}

impl Local {
    /// Queues an update of one key and waits for its answer.
    pub(super) fn commit_update<R: Send + 'static>(
        &self,
        key: &[u8],
        update: Update,
        answer: Answer<R>,
    ) -> Later<Result<R, StoreError>> {
        match self.engine.get_cell_cached(key, self.tier()) {
            // The block is read before the update is queued, so that the group does not wait for the disk: the lookup then hits
            // the cache.
            Ok(Cached::NeedsDisk(read)) => {
                let (found, queued) = (self.later(read, |_, _| Some(())), self.queued.clone());
                let unqueued = Unqueued::begin(&self.unqueued);
                Box::pin(async move {
                    found.wait().await?;
                    let written = queued.push_update(update);
                    drop(unqueued);
                    written.await?;
                    Ok(answer.take())
                })
            }
            Ok(Cached::Found(_) | Cached::Absent) => {
                let written = self.queued.push_update(update);
                Box::pin(async move {
                    written.await?;
                    Ok(answer.take())
                })
            }
            Err(error) => Box::pin(ready(Err(read_error(&error)))),
        }
    }
}
