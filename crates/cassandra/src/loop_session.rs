use std::cell::OnceCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;

use crate::connect::{self, Serve};
use crate::shared::Shared;

/// How long an event loop waits before it tries again to connect.
const AGAIN_AFTER: Duration = Duration::from_secs(2);

/// Connections that the event loop serves that asks by them: an answer wakes no other thread then. Until they are there, those of the
/// driver's own threads are used.
#[derive(Clone)]
pub(crate) struct LoopSession(Rc<OnceCell<Arc<Session>>>);

impl LoopSession {
    /// Begins to connect, beside what the event loop does. Within its runtime.
    pub(crate) fn begin(shared: &Arc<Shared>) -> LoopSession {
        let own = Rc::default();
        tokio::task::spawn_local(connect_for(Rc::downgrade(&own), Arc::clone(shared)));
        LoopSession(own)
    }

    pub(crate) fn get(&self, shared: &Shared) -> Arc<Session> {
        Arc::clone(self.0.get().unwrap_or(&shared.session))
    }
}

/// Tries until it succeeds, or nobody waits for it.
async fn connect_for(own: Weak<OnceCell<Arc<Session>>>, shared: Arc<Shared>) {
    let keyspaces: Vec<String> =
        (1..=shared.place.replicas_max).map(|from| shared.place.keyspace_of(from)).collect();
    while own.strong_count() > 0 {
        match connect::connect(&shared.settings, Serve::Loop(&keyspaces)).await {
            Ok(session) => {
                let session = Arc::new(session);
                shared.sessions.add(&session);
                if let Some(own) = own.upgrade() {
                    let _ = own.set(session);
                }
                return;
            }
            Err(error) => tracing::debug!(%error, "an event loop has no connections of its own yet"),
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}
