use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use ladoga_model::{Durability, Quote};
use ladoga_service::{Context, Error};
use scylla::client::session::Session;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::attempts::Attempts;
use crate::clock::{Ahead, DoorClock, WallUs};
use crate::connect::{self, Serve};
use crate::failure::{Asked, unreachable};
use crate::keyspace::{Keyspace, is_decided};
use crate::making::Making;
use crate::place::Place;
use crate::readiness::Readiness;
use crate::schema::Wanted;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::start_error::StartError;
use crate::synced::is_synced;
use crate::warnings::Warnings;

/// What all event loops share.
pub(crate) struct Shared {
    /// The connections that the driver's own threads serve.
    pub(crate) session: Arc<Session>,
    /// Those of each event loop.
    pub(crate) sessions: Sessions,
    pub(crate) runtime: Handle,
    pub(crate) settings: Settings,
    pub(crate) clock: DoorClock,
    pub(crate) counts: Counts,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) place: Place,
    pub(crate) readiness: Readiness,
    pub(crate) warnings: Warnings,
    /// Of rows that clocks which were wrong have written.
    ahead: Warnings,
    /// Whether a write is on disk when it is acknowledged, if Cassandra says.
    is_synced: Option<bool>,
    /// By how many copies their keys have.
    keyspaces: Vec<Slot>,
}

/// A keyspace, or why it cannot be used.
type Found = Result<Arc<Keyspace>, StartError>;

/// Where a keyspace is once it is made.
#[derive(Default)]
pub(crate) struct Slot {
    /// Nothing until its first use.
    found: ArcSwapOption<Found>,
    making: Making<Found>,
}

impl Slot {
    pub(crate) fn get(&self) -> Option<Found> {
        self.found.load().as_deref().cloned()
    }

    pub(crate) fn set(&self, found: Found) {
        self.found.store(Some(Arc::new(found)));
    }
}

/// What a door counts.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) statements: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) contended: AtomicU64,
    pub(crate) swept: AtomicU64,
    pub(crate) ahead: AtomicU64,
    /// Not a count: how many large values without a row the last look found.
    pub(crate) unnamed: AtomicU64,
}

impl Shared {
    pub(crate) async fn connect(settings: &Settings, wall_us: WallUs) -> Result<Shared, StartError> {
        let session = connect::connect(settings, Serve::Threads).await?;
        let place = Place::find(&session, settings).await?;
        let is_synced = is_synced(&session, &place.datacenter, settings.durability).await?;
        let keyspaces = (0..=place.replicas_max).map(|_| Slot::default()).collect();
        let shared = Shared {
            session: Arc::new(session),
            sessions: Sessions::default(),
            runtime: Handle::current(),
            settings: settings.clone(),
            clock: DoorClock::new(wall_us),
            counts: Counts::default(),
            attempts: Arc::new(Attempts::new()),
            place,
            readiness: Readiness::default(),
            warnings: Warnings::default(),
            ahead: Warnings::default(),
            is_synced,
            keyspaces,
        };
        shared.make(shared.place.replicas_max).await?;
        Ok(shared)
    }

    pub(crate) const fn wanted(&self, from: u32) -> Wanted<'_> {
        Wanted { from, place: &self.place, writes: self.settings.writes }
    }

    async fn make(&self, from: u32) -> Found {
        let made = Keyspace::prepare(&self.session, self.wanted(from), &self.attempts).await?;
        let made = Arc::new(made);
        self.keyspaces[from as usize].set(Ok(Arc::clone(&made)));
        Ok(made)
    }

    /// The keyspace of keys with so many copies; made at its first use.
    pub(crate) async fn keyspace(self: &Arc<Shared>, from: u32) -> Result<Arc<Keyspace>, Error> {
        let Some(slot) = self.keyspaces.get(from as usize) else {
            return Err(unreachable(format_args!("no key has {from} copies here")));
        };
        if let Some(found) = slot.get() {
            return found.map_err(unreachable);
        }
        // In a box: this is the larger part of what would lie in memory for each request.
        Box::pin(self.made(slot, from)).await
    }

    /// Waits for it as long as a request may take. It can take longer: then it is there for a later one.
    async fn made(self: &Arc<Shared>, slot: &Slot, from: u32) -> Result<Arc<Keyspace>, Error> {
        let make = || {
            let shared = Arc::clone(self);
            async move { shared.make(from).await }
        };
        let timeout_ms = self.settings.timeout_ms;
        match timeout(Duration::from_millis(timeout_ms), slot.making.result(&self.runtime, make)).await {
            Ok(Some(made)) => made.map_err(unreachable),
            Ok(None) => Err(unreachable(
                "what made the keyspace was given up: the door is stopping, or has a defect that its log tells",
            )),
            Err(_) => {
                let keyspace = self.place.keyspace_of(from);
                Err(unreachable(format_args!(
                    "the keyspace {keyspace} is used for the first time, and is not ready after {timeout_ms} ms"
                )))
            }
        }
    }

    /// Those that were used so far, by how many copies their keys have.
    pub(crate) fn used(&self) -> impl Iterator<Item = (u32, &Slot, Found)> {
        (0..).zip(&self.keyspaces).filter_map(|(from, slot)| Some((from, slot, slot.get()?)))
    }

    /// What takes several statements has the time of one request.
    pub(crate) async fn in_time<T>(
        &self,
        asked: Asked,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let time = Duration::from_millis(self.settings.timeout_ms);
        timeout(time, work).await.unwrap_or_else(|_| Err(asked.timed_out(time)))
    }

    /// Refuses what would not be as durable as the request asks for, or may not be.
    pub(crate) fn check_durability(&self, context: &Context) -> Result<(), Error> {
        if context.durability != Some(Durability::Always) {
            return Ok(());
        }
        match self.is_synced {
            Some(true) => Ok(()),
            Some(false) => Err(Error::Unsupported(
                "fsync=always: nodes of Cassandra have commitlog_sync periodic, so they acknowledge a write before it is on disk; set it \
                 to batch or group in cassandra.yaml",
            )),
            None => Err(Error::Unsupported(
                "fsync=always: nodes of Cassandra did not say what their commitlog_sync is, so it is not known whether they acknowledge a \
                 write before it is on disk; GRANT SELECT ON system_views.settings TO the user of --cassandra-user, and start this again",
            )),
        }
    }

    /// Refuses what only Cassandra can decide.
    pub(crate) fn check_decides(&self) -> Result<(), Error> {
        if is_decided(self.settings.writes) {
            return Ok(());
        }
        Err(Error::Unsupported(
            "writes that depend on what is there need --cassandra-writes lwt at all doors: then Cassandra decides about each write, \
             which takes it several round trips; with plain writes it cannot",
        ))
    }

    /// Plain writes to such a key are older than what is there. Cassandra itself decides which of two transactions is.
    pub(crate) fn note_ahead(&self, key: &[u8], Ahead { ahead_ms }: &Ahead) {
        self.counts.ahead.fetch_add(1, Ordering::Relaxed);
        if is_decided(self.settings.writes) {
            return;
        }
        if let Some(count) = self.ahead.due(Instant::now()) {
            let key = Quote::of(key);
            tracing::warn!(
                %key, ahead_ms, count,
                "a row has a version of a time that is yet to come: until then, writes to its key are acknowledged and lost; a clock is \
                 wrong, or was"
            );
        }
    }

    /// Why a request would not be served now, as far as is known.
    pub(crate) fn obstacles(&self) -> Vec<String> {
        let none = "no node of Cassandra can be reached: the driver tries again all the time".to_owned();
        if self.has_a_connection() { self.readiness.get() } else { vec![none] }
    }

    /// Whether one of the nodes can be asked.
    fn has_a_connection(&self) -> bool {
        self.session.get_cluster_state().get_nodes_info().iter().any(|node| node.is_connected())
    }
}
