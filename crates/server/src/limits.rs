/// The bounds of a node. What a client can make grow, or make last, is bounded by one of them.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long the head of a request may take from its first byte on, and how long a body may pause: then `408`.
    pub request_timeout_ms: u64,
    /// How fast a body has to arrive on the whole, once the time above is used up.
    pub body_bytes_per_second_min: u64,
    /// How long a client may take no bytes of its answer before it is disconnected.
    pub answer_timeout_ms: u64,
    /// How long a connection may be kept alive without a request.
    pub idle_timeout_ms: u64,
    /// How long requests in flight may take to end once the node is to stop.
    pub drain_timeout_ms: u64,
    /// Connections at a time.
    pub connections_max: usize,
    /// Answers of ranges and of large values under way at a time.
    pub streams_max: usize,
    /// Whether of each of these one piece is read ahead while the client takes another.
    pub reads_ahead: bool,
    /// Large values on their way in at a time.
    pub uploads_max: usize,
    /// Bytes of values on their way in that have arrived, large and small ones apart.
    pub body_bytes_max: u64,
    /// How long a request has to take to be told in the log; `None` if none is.
    pub slow_request_ms: Option<u64>,
}

/// The memory that an answer larger than memory takes: the piece that is sent, and the one that is read ahead.
const STREAM_BYTES: u64 = 1 << 20;
/// The memory for a large value that is being uploaded: a piece of its file, and what arrives while that is written.
const UPLOAD_BYTES: u64 = 1 << 19;
/// The usual memory of a connection: receive buffer, send buffer and state.
const CONNECTION_BYTES: u64 = 20 << 10;
/// The share of the memory budget that connections may have.
const CONNECTIONS_SHARE: u64 = 4;
/// At least this many are permitted, however little memory there is.
const CONNECTIONS_MIN: u64 = 512;
const CONNECTIONS_MAX: u64 = 16 << 10;
/// The share of the memory budget that answers and values under way may have, each.
const TRANSFER_SHARE: u64 = 8;
/// At least this many at a time are permitted, however little memory there is.
const TRANSFERS_MIN: u64 = 24;
/// However much there is, more would only wait for the disk together.
const STREAMS_MAX: u64 = 512;
const UPLOADS_MAX: u64 = 64;

/// A request that takes so long is told in the log, unless the operator wants it otherwise.
const SLOW_REQUEST_MS: u64 = 1_000;

impl Limits {
    /// Bounds that go with a memory budget.
    pub fn for_memory(memory_bytes: u64) -> Limits {
        let share = memory_bytes / TRANSFER_SHARE;
        let defaults = Limits::default();
        let connections = memory_bytes / CONNECTIONS_SHARE / CONNECTION_BYTES;
        Limits {
            connections_max: connections.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX) as usize,
            streams_max: (share / STREAM_BYTES).clamp(TRANSFERS_MIN, STREAMS_MAX) as usize,
            // With less memory, there are as many, and each takes less.
            reads_ahead: share / STREAM_BYTES >= TRANSFERS_MIN,
            uploads_max: (share / UPLOAD_BYTES).clamp(TRANSFERS_MIN, UPLOADS_MAX) as usize,
            body_bytes_max: (memory_bytes / TRANSFER_SHARE).clamp(4 << 20, defaults.body_bytes_max),
            ..defaults
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_timeout_ms: 10_000,
            body_bytes_per_second_min: 16 << 10,
            answer_timeout_ms: 30_000,
            idle_timeout_ms: 120_000,
            drain_timeout_ms: 10_000,
            connections_max: CONNECTIONS_MAX as usize,
            streams_max: 64,
            reads_ahead: true,
            uploads_max: 32,
            body_bytes_max: 32 << 20,
            slow_request_ms: Some(SLOW_REQUEST_MS),
        }
    }
}
