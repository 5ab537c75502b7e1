use std::rc::Rc;
use std::sync::Arc;

use ladoga_runtime::Supervisor;

use super::Hub;
use crate::embedded::Embedded;
use crate::embedded::feed::Feed;

/// The feed of changes, and who of this loop waits for it.
#[derive(Clone)]
pub(in super::super) struct Following {
    pub(in super::super) feed: Arc<Feed>,
    pub(in super::super) hub: Rc<Hub>,
    /// Begins to keep what changes.
    pub(in super::super) begin: Arc<dyn Fn() + Send + Sync>,
}

impl Following {
    pub(in super::super) fn start(store: &Embedded, supervisor: &Supervisor) -> Following {
        let feed = &store.feed;
        let hub = Rc::new(Hub::new(Arc::clone(feed), Arc::clone(&store.clock)));
        supervisor.spawn_local("changes", Rc::clone(&hub).run());
        let (queue, begun) = (store.queue.shared(), Arc::clone(feed));
        let begin = Arc::new(move || queue.begin_to_follow(&begun));
        Following { feed: Arc::clone(feed), hub, begin }
    }
}
