use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use ladoga_model::{Durability, Replicas};
use ladoga_service::{Context, Error};
use scylla::client::session::Session;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use crate::attempts::Attempts;
use crate::clock::{DoorClock, WallUs};
use crate::connect::{self, Place};
use crate::consistency::consistency;
use crate::failure::{Asked, unreachable};
use crate::keyspace::{Keyspace, is_decided};
use crate::schema::{self, Wanted};
use crate::settings::{Settings, Writes};
use crate::start_error::StartError;

/// What all event loops share.
pub(crate) struct Shared {
    pub(crate) session: Session,
    pub(crate) runtime: Handle,
    pub(crate) clock: DoorClock,
    pub(crate) writes: Writes,
    pub(crate) timeout: Duration,
    pub(crate) pieces_keep_ms: u64,
    pub(crate) counts: Counts,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) place: Place,
    /// Whether a write is on disk when it is acknowledged, if Cassandra says.
    is_synced: Option<bool>,
    /// By how many copies their keys have.
    keyspaces: Vec<OnceLock<Arc<Keyspace>>>,
    /// Held while a keyspace is made.
    making: Mutex<()>,
}

/// What a door counts.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) statements: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) contended: AtomicU64,
    pub(crate) swept: AtomicU64,
}

impl Shared {
    pub(crate) async fn connect(settings: &Settings, wall_us: WallUs) -> Result<Shared, StartError> {
        let session = connect::connect(settings).await?;
        let place = connect::place(&session, settings)?;
        let is_synced = is_synced(&session, settings.durability).await?;
        let keyspaces = (0..=place.replicas_max).map(|_| OnceLock::new()).collect();
        let shared = Shared {
            session,
            runtime: Handle::current(),
            clock: DoorClock::new(wall_us),
            writes: settings.writes,
            timeout: Duration::from_millis(settings.timeout_ms),
            pieces_keep_ms: settings.pieces_keep_ms,
            counts: Counts::default(),
            attempts: Arc::default(),
            place,
            is_synced,
            keyspaces,
            making: Mutex::new(()),
        };
        shared.make(shared.place.replicas_max).await?;
        Ok(shared)
    }

    async fn make(&self, from: u32) -> Result<&Arc<Keyspace>, StartError> {
        let _making = self.making.lock().await;
        let slot = &self.keyspaces[from as usize];
        if let Some(made) = slot.get() {
            return Ok(made);
        }
        let wanted = Wanted { from, place: &self.place, writes: self.writes };
        let made = Keyspace::prepare(&self.session, wanted, &self.attempts).await?;
        Ok(slot.get_or_init(|| Arc::new(made)))
    }

    /// The keyspace of keys with so many copies; made at its first use.
    pub(crate) async fn keyspace(&self, from: u32) -> Result<Arc<Keyspace>, Error> {
        let Some(slot) = self.keyspaces.get(from as usize) else {
            return Err(unreachable(format_args!("no key has {from} copies here")));
        };
        match slot.get() {
            Some(made) => Ok(Arc::clone(made)),
            None => self.make(from).await.map(Arc::clone).map_err(unreachable),
        }
    }

    /// Those that were used so far.
    pub(crate) fn keyspaces(&self) -> impl Iterator<Item = &Arc<Keyspace>> {
        self.keyspaces.iter().filter_map(OnceLock::get)
    }

    /// Runs a statement, and waits for as many copies as were asked for.
    pub(crate) async fn run(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        asked: Asked,
    ) -> Result<QueryResult, Error> {
        self.run_at(consistency(asked.replicas), statement, values, asked).await
    }

    pub(crate) async fn run_at(
        &self,
        consistency: Consistency,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        asked: Asked,
    ) -> Result<QueryResult, Error> {
        let mut statement = statement.clone();
        statement.set_consistency(consistency);
        self.counts.statements.fetch_add(1, Ordering::Relaxed);
        self.session.execute_unpaged(&statement, values).await.map_err(|error| {
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            asked.failed(&error)
        })
    }

    /// The same of a statement that answers rows.
    pub(crate) async fn rows(
        &self,
        statement: &PreparedStatement,
        values: impl SerializeRow,
        asked: Asked,
    ) -> Result<QueryRowsResult, Error> {
        rows(self.run(statement, values, asked).await?)
    }

    /// What takes several statements has the time of one request.
    pub(crate) async fn in_time<T>(
        &self,
        asked: Asked,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| Err(asked.timed_out(self.timeout)))
    }

    /// Refuses what would not be as durable as the request asks for.
    pub(crate) fn check_durability(&self, context: &Context) -> Result<(), Error> {
        if context.durability == Some(Durability::Always) && self.is_synced == Some(false) {
            return Err(Error::Unsupported(
                "fsync=always: the nodes of Cassandra have commitlog_sync periodic, so they acknowledge a write before it is on \
                 disk; set it to batch or group in cassandra.yaml",
            ));
        }
        Ok(())
    }

    /// Refuses what only Cassandra can decide.
    pub(crate) fn check_decides(&self) -> Result<(), Error> {
        if is_decided(self.writes) {
            return Ok(());
        }
        Err(Error::Unsupported(
            "writes that depend on what is there need --cassandra-writes lwt at all doors: then Cassandra decides about each write, \
             which takes it several round trips; with plain writes it cannot",
        ))
    }

    /// Whether one of the nodes can be asked.
    pub(crate) fn has_a_connection(&self) -> bool {
        self.session.get_cluster_state().get_nodes_info().iter().any(|node| node.is_connected())
    }
}

/// Whether nodes sync before they acknowledge; an error if they do not, and have to.
async fn is_synced(session: &Session, durability: Durability) -> Result<Option<bool>, StartError> {
    let Some(found) = schema::commitlog_sync(session).await else {
        tracing::warn!(
            "Cassandra does not say what its commitlog_sync is: it is not known when writes are on disk"
        );
        return Ok(None);
    };
    let is_synced = found == "batch" || found == "group";
    match durability {
        Durability::Always if !is_synced => Err(StartError::NotSynced { found }),
        _ => Ok(Some(is_synced)),
    }
}

/// The rows of an answer.
pub(crate) fn rows(result: QueryResult) -> Result<QueryRowsResult, Error> {
    result.into_rows_result().map_err(|error| unreachable(format_args!("Cassandra's answer: {error}")))
}

/// What a request needs to go on by itself.
#[derive(Clone)]
pub(crate) struct At {
    pub(crate) shared: Arc<Shared>,
    pub(crate) keyspace: Arc<Keyspace>,
    pub(crate) replicas: Replicas,
}

impl At {
    pub(crate) async fn new(shared: Arc<Shared>, replicas: Replicas) -> Result<At, Error> {
        let keyspace = shared.keyspace(replicas.from).await?;
        Ok(At { shared, keyspace, replicas })
    }

    pub(crate) fn read(&self) -> Asked {
        Asked::read(self.replicas)
    }

    pub(crate) fn write(&self) -> Asked {
        Asked::write(self.replicas)
    }
}

/// A column of bytes, or nothing.
pub(crate) type Column = Option<Bytes>;
