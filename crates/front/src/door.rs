use std::cell::OnceCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_runtime::{Gate, Metrics};
use ladoga_service::{Error, Later, Metric};

use crate::auth::Access;
use crate::connection::{Core, Link};

/// HTTP, as the way in to a service: what its requests on one event loop go by.
pub struct Door<K> {
    /// What all connections of the event loop share.
    pub core: Rc<Core>,
    /// The service, once it is open.
    pub opening: Rc<Opening<K>>,
    /// On how many nodes a key can live.
    pub nodes: u32,
    /// Whether the service is a node on its own: it has transactions, and nobody else to wait for.
    pub is_alone: bool,
    /// Answers that are too large for memory, by number.
    pub streams: Gate,
    /// Values that are, by number.
    pub uploads: Gate,
    /// TLS handshakes under way, by number.
    pub handshakes: Gate,
    /// The figures of all event loops.
    pub metrics: Arc<Metrics>,
    /// The cluster that the node is of, if it is of one.
    pub cluster: Option<Rc<dyn ClusterDoor>>,
    /// Who may do what.
    pub access: Arc<Access>,
}

impl<K> Door<K> {
    /// The service, unless the node does not serve.
    pub(crate) fn service(&self) -> Result<&Rc<K>, Error> {
        if self.core.is_draining() {
            return Err(Error::Draining);
        }
        self.opening.get().ok_or(Error::Opening)
    }

    /// What a read takes its time for, beside what it waits for before.
    pub(crate) fn reads_from(&self) -> &'static str {
        if self.is_alone { "disk" } else { self.others() }
    }

    /// The same of a write: its place in the queue, the log, and a sync if it needs one.
    pub(crate) fn writes_to(&self) -> &'static str {
        if self.is_alone { "commit" } else { self.others() }
    }

    fn others(&self) -> &'static str {
        if self.cluster.is_some() { "replicas" } else { "cassandra" }
    }
}

/// A service that is there once the data directory is open.
pub struct Opening<K> {
    service: OnceCell<Rc<K>>,
    open: Box<dyn Fn() -> Option<K>>,
}

impl<K> Opening<K> {
    /// `open` answers the service, once it can be had.
    pub fn new(open: impl Fn() -> Option<K> + 'static) -> Opening<K> {
        Opening { service: OnceCell::new(), open: Box::new(open) }
    }

    /// The service, once it is open.
    pub fn get(&self) -> Option<&Rc<K>> {
        if let Some(service) = self.service.get() {
            return Some(service);
        }
        let service = (self.open)()?;
        Some(self.service.get_or_init(|| Rc::new(service)))
    }
}

/// A cluster, as operators and other nodes may ask for it.
pub trait ClusterDoor {
    /// Its nodes, and how they are as seen from here, as JSON.
    fn report(&self) -> String;

    /// What this node counts about it.
    fn metrics(&self) -> Vec<Metric>;

    /// Has this node take over what the others have and it lacks; answers the number of the repair.
    fn request_repair(&self) -> u64;

    /// Whether a node that shows this in `Authorization` has the secret of the cluster; `None` if it has none.
    fn admits(&self, authorization: Option<&[u8]>) -> Option<bool>;

    /// Whether its nodes prove by certificates who they are.
    fn is_secure(&self) -> bool;

    /// The hosts of its nodes.
    fn hosts(&self) -> Vec<&str>;

    /// The protocol that nodes speak with each other.
    fn protocol(&self) -> &'static str;

    /// Whether there are as many connections of peers as there may be.
    fn is_full(&self) -> bool;

    /// Serves a connection that a peer made, once the service is open.
    fn serve_peer(&self, link: &Rc<Link>) -> Later<io::Result<()>>;
}
