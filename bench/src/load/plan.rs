use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ladoga_lab::generator::{Drive, Pace};

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
    /// Ends the run early.
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

    /// The part of it that the generator has to know.
    pub(super) fn drive(&self) -> Drive {
        let Self { address, connections, pipeline, pace, warmup, duration, timeout, .. } = *self;
        Drive { address, connections, pipeline, pace, warmup, duration, timeout }
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
