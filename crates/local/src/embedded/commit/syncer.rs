use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ladoga_env::{Turn, Worker};
use ladoga_storage::Engine;

use super::super::write_error;
use super::shared::{CommitShared, panicked};

/// The worker that syncs the log for the writes that asked for it, if the store does not sync each group. It does so beside the
/// writers, so that writes which did not ask wait for nothing. What asks during a sync shares the next one.
pub(super) struct Syncer {
    shared: Arc<CommitShared>,
    engine: Arc<Engine>,
}

impl Syncer {
    pub(super) fn new(shared: Arc<CommitShared>, engine: Arc<Engine>) -> Syncer {
        Syncer { shared, engine }
    }
}

impl Worker for Syncer {
    fn turn(&mut self) -> Turn {
        let Some(results) = self.shared.unsynced().take() else { return Turn::Over };
        if results.is_empty() {
            return Turn::Wait;
        }
        let synced = match catch_unwind(AssertUnwindSafe(|| self.engine.sync())) {
            Ok(synced) => synced.map_err(|error| write_error(&error)),
            Err(_) => {
                self.shared.mark_panicked();
                Err(panicked())
            }
        };
        for (write_queue, mut result) in results {
            if let Err(error) = &synced {
                result.fail(error);
            }
            write_queue.deliver(result);
        }
        Turn::Again
    }
}
