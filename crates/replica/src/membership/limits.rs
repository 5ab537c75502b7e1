use ladoga_cluster::{LIST_KEYS_MAX, LIST_SCAN_MAX, NodeId, NodeList};

/// The cluster that a node is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Every node, this one included.
    pub nodes: NodeList,
    /// Which of them is this one.
    pub own: NodeId,
    /// Host and port of each.
    pub addresses: Vec<(String, u16)>,
}

/// The bounds of what peers may cost.
#[derive(Debug, Clone)]
pub struct PeerLimits {
    /// How long a connection to a peer may take, the greeting included.
    pub peer_connect_timeout_ms: u64,
    /// How long a peer that owes an answer may say nothing at all before it counts as frozen.
    pub peer_timeout_ms: u64,
    /// How long a request waits for its replicas.
    pub quorum_timeout_ms: u64,
    /// Requests that wait for one peer at a time, on one event loop.
    pub peer_requests_max: usize,
    /// Their bytes.
    pub peer_queue_bytes_max: usize,
    /// How far ahead of this node's clock a version may be.
    pub clock_ahead_ms_max: u64,
    /// What the hash tree may take of memory.
    pub tree_bytes_max: u64,
    /// What all connections that peers make to this node may hold.
    pub session_bytes_max: usize,
    /// How many keys one page of a list has, by which a peer pulls.
    pub list_keys_max: usize,
    /// How many records are scanned for one page.
    pub list_scan_max: usize,
    /// How often the lateness of an event loop is measured, while there are requests. In a simulation a loop is never late.
    pub lateness_every_ms: u64,
}

/// The share of the memory budget that the hash tree of a node may take, and its bounds.
const TREE_MEMORY_SHARE: u64 = 8;
const TREE_BYTES_MIN: u64 = 8 << 20;
const TREE_BYTES_MAX: u64 = 32 << 20;

/// The share of the memory budget that connections of peers may hold, and its bounds.
const SESSIONS_MEMORY_SHARE: u64 = 8;
const SESSIONS_BYTES_MIN: u64 = 8 << 20;
const SESSIONS_BYTES_MAX: u64 = 64 << 20;
/// The share of it for requests to peers that are not answered yet, and its bounds for each connection.
const QUEUES_MEMORY_SHARE: u64 = 16;
const QUEUE_BYTES_MIN: u64 = 512 << 10;
const QUEUE_BYTES_MAX: u64 = 8 << 20;

impl PeerLimits {
    /// The bounds for a memory budget, on a node that makes so many connections to peers.
    pub fn for_memory(memory_bytes: u64, links: usize) -> PeerLimits {
        let tree_bytes_max = (memory_bytes / TREE_MEMORY_SHARE).clamp(TREE_BYTES_MIN, TREE_BYTES_MAX);
        let sessions = (memory_bytes / SESSIONS_MEMORY_SHARE).clamp(SESSIONS_BYTES_MIN, SESSIONS_BYTES_MAX);
        let queue = memory_bytes / QUEUES_MEMORY_SHARE / links.max(1) as u64;
        PeerLimits {
            tree_bytes_max,
            session_bytes_max: sessions as usize,
            peer_queue_bytes_max: queue.clamp(QUEUE_BYTES_MIN, QUEUE_BYTES_MAX) as usize,
            ..PeerLimits::default()
        }
    }

    /// The part of the memory budget that the engine must leave to the rest of the node.
    pub fn memory_bytes(&self) -> u64 {
        self.tree_bytes_max + self.session_bytes_max as u64
    }
}

impl Default for PeerLimits {
    fn default() -> PeerLimits {
        PeerLimits {
            peer_connect_timeout_ms: 1_000,
            peer_timeout_ms: 1_000,
            quorum_timeout_ms: 5_000,
            peer_requests_max: 8_192,
            peer_queue_bytes_max: QUEUE_BYTES_MAX as usize,
            clock_ahead_ms_max: 60_000,
            tree_bytes_max: TREE_BYTES_MIN,
            session_bytes_max: SESSIONS_BYTES_MAX as usize,
            list_keys_max: LIST_KEYS_MAX,
            list_scan_max: LIST_SCAN_MAX,
            lateness_every_ms: 10,
        }
    }
}
