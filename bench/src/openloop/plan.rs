use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How fast requests are sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Pace {
    /// Open loop: this many a second, whatever the server does.
    PerSecond(f64),
    /// Closed loop: the next one when an answer is there. For throughput only.
    Closed,
}

/// What to send, how fast, for how long.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) address: SocketAddr,
    pub(crate) connections: usize,
    /// How many requests may be on their way on one connection.
    pub(crate) pipeline: usize,
    pub(crate) pace: Pace,
    /// Sent at full pace, not recorded.
    pub(crate) warmup: Duration,
    /// How long requests are due after the warm-up.
    pub(crate) duration: Duration,
    /// Ends a closed loop early.
    pub(crate) requests_max: Option<u64>,
    /// An answer that takes longer is given up, and its connection with it.
    pub(crate) timeout: Duration,
    /// 1 is `PUT` only, 0 is `GET` only.
    pub(crate) put_share: f64,
    /// Keys are picked uniformly out of so many.
    pub(crate) records: u64,
    /// Instead of out of all records: out of those with these numbers.
    pub(crate) only: Option<Arc<[u64]>>,
    /// `ACK/FROM` of each request; `None` leaves it to the server.
    pub(crate) replicas: Option<&'static str>,
    pub(crate) value_bytes: usize,
    pub(crate) seed: u64,
}

impl Plan {
    /// One request at a time on each connection, for values of 100 bytes.
    pub(crate) fn new(address: SocketAddr, connections: usize, pace: Pace, duration: Duration) -> Self {
        Self {
            address,
            connections,
            pipeline: 1,
            pace,
            warmup: Duration::ZERO,
            duration,
            requests_max: None,
            timeout: Duration::from_secs(10),
            put_share: 1.0,
            records: 1,
            only: None,
            replicas: None,
            value_bytes: 100,
            seed: 1,
        }
    }

    /// The plan as people write it. `rate` stands for an open loop's, which may be another in each round.
    pub(crate) fn line(&self, rate: &str) -> String {
        let pace = match self.pace {
            Pace::PerSecond(_) => format!("open loop, {rate}"),
            Pace::Closed => "closed loop".to_owned(),
        };
        let pipeline =
            if self.pipeline > 1 { format!(", {} in a pipeline", self.pipeline) } else { String::new() };
        let length = self.requests_max.map_or_else(
            || format!("{:.1} s", self.duration.as_secs_f64()),
            |count| format!("{count} requests"),
        );
        let replicas = self.replicas.map_or_else(String::new, |replicas| format!(", replicas={replicas}"));
        format!(
            "{pace}, {} connections{pipeline}, {:.0} % PUT{replicas}, {} keys, values of {} B, {length}",
            self.connections,
            self.put_share * 100.0,
            self.only.as_ref().map_or(self.records, |only| only.len() as u64),
            self.value_bytes,
        )
    }
}
