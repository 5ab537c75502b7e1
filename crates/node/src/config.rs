use std::net::SocketAddr;
use std::sync::Arc;

use ladoga_access::PeerSecret;
use ladoga_front::{Access, RespSettings};
use ladoga_replica::{Membership, PeerLimits};
use ladoga_runtime::Traces;
use ladoga_server::{Limits, Placement};

/// What a node is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients connect; port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Where clients of Redis connect, if they may.
    pub resp: Vec<SocketAddr>,
    /// What these may do and learn.
    pub resp_settings: RespSettings,
    /// How many event loops there are, at least 1.
    pub event_loops: usize,
    /// Which of them serve.
    pub placement: Placement,
    /// The cluster that it is of, if any.
    pub membership: Option<Membership>,
    /// What bounds it.
    pub limits: Limits,
    /// What bounds what other nodes may cost.
    pub peer_limits: PeerLimits,
    /// Who may do what.
    pub access: Arc<Access>,
    /// What its nodes show each other.
    pub peer_secret: Option<PeerSecret>,
    /// Where spans go, if traces are recorded.
    pub traces: Option<Arc<Traces>>,
}

impl Config {
    /// One node on its own.
    pub fn alone(listen: Vec<SocketAddr>, event_loops: usize) -> Config {
        assert!(event_loops > 0, "a node has an event loop");
        Config {
            listen,
            resp: Vec::new(),
            resp_settings: RespSettings::default(),
            event_loops,
            placement: Placement::AllLoops,
            membership: None,
            limits: Limits::default(),
            peer_limits: PeerLimits::default(),
            access: Arc::default(),
            peer_secret: None,
            traces: None,
        }
    }
}
