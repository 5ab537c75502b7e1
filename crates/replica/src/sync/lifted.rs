//! What has ended promises to conditional writes is on the disk before they are forgotten there.

use std::rc::Rc;
use std::time::Duration;

use ladoga_local::store::{LocalStore, Store};

use crate::own::OwnReplica;

/// After how long a sync that failed is tried again.
const RETRY_MS: u64 = 1_000;

/// Syncs the store whenever many promises have ended, for as long as the event loop runs. On one loop of a node.
pub(super) async fn forget_lifted<S: Store>(replica: Rc<OwnReplica<S>>) {
    let fences = replica.cluster.fences();
    loop {
        let lift = fences.many_lifted().await;
        match replica.store.sync().await {
            Ok(()) => fences.forget_lifted(lift),
            // Nothing is lost: they are kept, and no more are given in the end.
            Err(error) => {
                tracing::debug!(%error, "promises that have ended are kept");
                tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
            }
        }
    }
}
