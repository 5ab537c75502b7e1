use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_model::Durability;
use ladoga_service::{Error, KeyValue};

use super::cursors::Cursors;
use super::link::RespLink;
use super::session::Told;
use crate::connection::Socket;
use crate::door::Door;

/// What an operator decides about the protocol of Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RespSettings {
    /// Whether clients may delete everything at once.
    pub allows_flush: bool,
    /// When a write is on disk that was acknowledged: the node's setting, which clients may ask for.
    pub durability: Durability,
    /// Where the node listens for clients of Redis.
    pub addresses: Arc<[IpAddr]>,
}

impl Default for RespSettings {
    fn default() -> RespSettings {
        RespSettings { allows_flush: false, durability: Durability::Always, addresses: Arc::default() }
    }
}

/// The protocol of Redis, as the way in to a service: what its connections on one event loop go by.
pub struct RespDoor<K> {
    /// What they have in common with those of HTTP.
    pub(super) door: Rc<Door<K>>,
    /// Where scans are, on all event loops.
    pub(super) cursors: Arc<Cursors>,
    /// The next connection's number, and how far it is from the one after that: each loop has its own.
    next_id: Cell<u64>,
    id_step: u64,
    /// Requests of the event loop that wait for room in the queues of the store.
    pub(super) paused: Rc<Cell<u64>>,
    pub(super) settings: RespSettings,
    /// Since when the node is there.
    started_ns: u64,
}

impl<K> RespDoor<K> {
    /// Of an event loop with this number.
    pub fn new(
        door: Rc<Door<K>>,
        cursors: Arc<Cursors>,
        event_loop: usize,
        settings: RespSettings,
    ) -> RespDoor<K> {
        let id_step = door.metrics.loops.len() as u64;
        let next_id = Cell::new(event_loop as u64 + 1);
        let started_ns = door.core.clock.monotonic_ns();
        RespDoor { door, cursors, next_id, id_step, paused: Rc::default(), settings, started_ns }
    }

    pub(super) fn uptime_seconds(&self) -> u64 {
        self.door.core.clock.monotonic_ns().saturating_sub(self.started_ns) / 1_000_000_000
    }

    /// A number that no other connection of the node has.
    pub(super) fn next_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + self.id_step)
    }

    /// The time of day.
    pub(super) fn now_ms(&self) -> u64 {
        self.door.core.clock.wall_ms()
    }

    pub(super) fn service(&self) -> Result<&Rc<K>, Error> {
        self.door.service()
    }
}

impl<K: KeyValue> RespDoor<K> {
    /// Takes a connection over, which may have told another event loop something.
    pub(crate) fn accept(&self, socket: Socket, told: Option<Told>) -> RespLink {
        RespLink::new(socket, Rc::clone(&self.door.core), self.large_bytes_min(), told)
    }

    /// From which length on the store wants values piece by piece. Until it is open, nobody knows.
    pub(super) fn large_bytes_min(&self) -> u64 {
        self.door.opening.get().map_or(u64::MAX, |service| service.upload_bytes_min())
    }
}
