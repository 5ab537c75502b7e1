use std::net::IpAddr;
use std::sync::Arc;

use ladoga_runtime::Metrics;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};

use super::balance::Shares;
use super::limits::Limits;
use super::placement::Placement;

/// Whether a server is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is.
    Running,
    /// It ends the requests in flight, and takes no others.
    Draining,
    /// It is not.
    Stopped,
}

/// A connection on its way from one loop to another.
pub(super) struct HandedOver<K> {
    pub(super) socket: std::net::TcpStream,
    /// Where its client is.
    pub(super) from: IpAddr,
    /// By which it came.
    pub(super) entrance: usize,
    /// What the other loop knew of it, if that has served it.
    pub(super) known: Option<K>,
}

/// Where a loop gets the connections that others give it.
pub(super) type HandedOvers<K> = mpsc::UnboundedReceiver<HandedOver<K>>;

/// What the event loops of a server share.
pub(super) struct Shared<K> {
    pub(super) limits: Limits,
    pub(super) metrics: Arc<Metrics>,
    /// By which a loop gives a connection to another.
    pub(super) hand_overs: Vec<mpsc::UnboundedSender<HandedOver<K>>>,
    /// Which loops serve.
    pub(super) shares: Shares,
    /// By which rule.
    pub(super) placement: Placement,
}

impl<K> Shared<K> {
    /// Of the loops that serve, the one that has the fewest connections, and how many.
    pub(super) fn least_loaded(&self) -> (usize, u64) {
        let counts =
            self.metrics.loops.iter().take(self.shares.serving()).map(|metrics| metrics.connections());
        counts.enumerate().min_by_key(|&(_, count)| count).expect("there is an event loop")
    }
}

/// Where an event loop gets its connections from, and until when.
pub(super) struct Intake<K> {
    /// Each with the entrance that it is one of.
    pub(super) listeners: Vec<(TcpListener, usize)>,
    pub(super) handed_over: HandedOvers<K>,
    pub(super) stage: watch::Receiver<Stage>,
    /// To say that no request is in flight any more.
    pub(super) drained: mpsc::Sender<()>,
}
