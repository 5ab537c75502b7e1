//! The embedded engine behind the store interface.
//!
//! - `commit`: the queue of writes, the commits of groups, and who waits for them
//! - `pool`: threads that may wait for the disk; `reads`: point reads by the ring, without such a thread
//! - `commit::Inbox`: how both answer an event loop, with one wake-up for many answers
//! - `local`: the engine as one event loop reaches it; `queued`: its writes that wait for the commit; `updates`: those that
//!   are decided there, with the answer; `restamp`: a write of a stamp alone; `several_keys`: what is read before one of several keys
//! - `read`, `range`, `cells`, `upload`: the jobs of the pool; `pieces`: how it reads a range
//! - `feed`: the changes, in order; `follow`: those who follow them
//! - `checkpoints`: copies for backups, until they are fetched; `kept_log`: what was written between them; `store_name`: whose they are
//! - `scan`: every cell that is there, for an observer
//! - `engine_metrics`: what the engine counts, for `/metrics`

mod cells;
mod checkpoints;
mod commit;
mod engine_metrics;
mod feed;
mod follow;
mod kept_log;
mod local;
mod pieces;
mod pool;
mod pool_reads;
mod queued;
mod range;
mod read;
mod reads;
mod restamp;
mod scan;
mod several_keys;
mod store_name;
mod updates;
mod upload;

pub use commit::Applied;
pub use feed::{fuzz_token, token_text_of};
pub use local::Local;
pub use upload::EmbeddedUpload;

use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ladoga_env::{Clock, Env, Workers};
use ladoga_storage::{Durability, Engine, Error, Options, WriteState};

use crate::store::{Arrivals, CellGate, CellObserver, CellOrder, Metric, Store, StoreError};
use checkpoints::Checkpoints;
use commit::CommitQueue;
use engine_metrics::engine_metrics;
use feed::Feed;
use ladoga_runtime::Supervisor;
use pool::Pool;
use pool_reads::PoolReads;
use reads::{RING_READS_MAX, ReadCounters, Reads};
use scan::Scan;

/// How long after its version was given a write may still be queued: far above what the queue's bounds allow. And by how much
/// the wall clock may be ahead, and set right again, before a value is lost that had seemed to have expired.
const TOMBSTONE_AGE_MS_MIN: u64 = 60_000;

/// How long deletions are kept for those who follow changes, unless it is set otherwise.
pub const CHANGES_KEPT_MS: u64 = 24 * 3_600_000;

/// By how much a replica flushes earlier than it has to, at most: enough for the flushes of replicas to drift apart.
const REPLICA_FLUSH_EARLY_PERCENT: u64 = 25;

/// Why a data directory is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The engine does not.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The system has no more threads.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
    /// What has to be on disk before the engine drops deletions cannot be read, or written.
    #[error(transparent)]
    Prepare(io::Error),
}

/// The embedded engine.
pub struct Embedded {
    engine: Arc<Engine>,
    clock: Arc<dyn Clock>,
    queue: CommitQueue,
    pool: Arc<Pool>,
    scan: Scan,
    /// The feed of changes.
    feed: Arc<Feed>,
    checkpoints: Arc<Checkpoints>,
    is_replica: bool,
    workers: Arc<dyn Workers>,
    disk: Arc<dyn ladoga_env::Disk>,
    /// Why event loops read without a ring, if they do.
    no_rings: Option<String>,
    read_counters: Arc<ReadCounters>,
}

impl Embedded {
    /// Opens the data directory of a node on its own.
    pub fn open(env: Env, dir: &Path, options: Options) -> Result<Embedded, OpenError> {
        Embedded::open_to_follow(env, dir, options, CHANGES_KEPT_MS, || Ok(()))
    }

    /// The same with deletions kept for so long for those who follow changes. `prepare` is called once the directory is this process's,
    /// and before anything of it is dropped.
    pub fn open_to_follow(
        env: Env,
        dir: &Path,
        options: Options,
        changes_kept_ms: u64,
        prepare: impl FnOnce() -> io::Result<()>,
    ) -> Result<Embedded, OpenError> {
        let options = Embedded::options_to_follow(&env, dir, options, changes_kept_ms);
        // If all of the log is synced each second, there is no less to be had.
        let may_be_weaker = options.durability == Durability::Always;
        let store = Embedded::start(env, dir, options, (may_be_weaker, false), changes_kept_ms, prepare)?;
        // Until it was open, another process could have begun to keep them.
        store.feed.keep_deletions();
        Ok(store)
    }

    /// What a node on its own opens the engine with. What it keeps is said before the engine begins to compact.
    fn options_to_follow(env: &Env, dir: &Path, mut options: Options, changes_kept_ms: u64) -> Options {
        options.tombstone_age_ms_min = Some(TOMBSTONE_AGE_MS_MIN);
        options.kept_deletions = Feed::kept_deletions(&*env.disk, dir, changes_kept_ms);
        options
    }

    /// Opens the data directory of a node of a cluster: there, no time proves that a deletion has reached every
    /// replica, so none is dropped for its age; and the wall clock of one node does not say what has expired. No write is less
    /// durable than the options say, whatever it asks for: a node that lost what it acknowledged is rebuilt.
    pub fn open_replica(env: Env, dir: &Path, options: Options) -> Result<Embedded, OpenError> {
        Embedded::open_replica_to_follow(env, dir, options, CHANGES_KEPT_MS)
    }

    /// The same with deletions kept for so long for those who follow changes.
    pub fn open_replica_to_follow(
        env: Env,
        dir: &Path,
        mut options: Options,
        changes_kept_ms: u64,
    ) -> Result<Embedded, OpenError> {
        options.flush_early_percent = REPLICA_FLUSH_EARLY_PERCENT;
        Embedded::start(env, dir, options, (false, true), changes_kept_ms, || Ok(()))
    }

    /// With writes that are less durable than the options say if they ask for it, if they may.
    fn start(
        env: Env,
        dir: &Path,
        options: Options,
        (may_be_weaker, is_replica): (bool, bool),
        changes_kept_ms: u64,
        prepare: impl FnOnce() -> io::Result<()>,
    ) -> Result<Embedded, OpenError> {
        let memory_bytes = options.memory_bytes;
        let (clock, disk) = (Arc::clone(&env.clock), Arc::clone(&env.disk));
        let workers = Arc::clone(&env.workers);
        // Tried once, for all event loops: if one may have a ring, all may.
        let no_rings = disk.read_ring(RING_READS_MAX).err().map(|error| error.to_string());
        let engine = Arc::new(Engine::open_idle(env.clone(), dir, options)?);
        prepare().map_err(OpenError::Prepare)?;
        engine.start_work()?;
        let checkpoints = Arc::new(Checkpoints::new(&env, dir, &engine));
        let bounds = (memory_bytes, may_be_weaker);
        let queue = CommitQueue::start(Arc::clone(&engine), Arc::clone(&clock), bounds, &*workers)?;
        let feed = Arc::new(Feed::new(env, dir, Arc::clone(&engine), memory_bytes, changes_kept_ms));
        queue.feed(Arc::clone(&feed));
        Ok(Embedded {
            engine,
            clock,
            queue,
            pool: Arc::new(Pool::start(&*workers, memory_bytes)?),
            scan: Scan::default(),
            feed,
            checkpoints,
            is_replica,
            workers,
            disk,
            no_rings,
            read_counters: Arc::default(),
        })
    }

    /// Why blocks are not read by `io_uring` but by threads that wait, if that is so.
    pub fn no_rings(&self) -> Option<&str> {
        self.no_rings.as_deref()
    }

    /// Does what the threads of the engine would do, a few steps of it; a new memtable begins if it `seals`.
    #[cfg(feature = "simulation")]
    pub fn do_background_work(&self, seals: bool) {
        // What fails here shows when it is asked for: the store is poisoned, or its power is gone.
        if seals {
            let _ = self.engine.seal();
        }
        for _ in 0..3 {
            let _ = self.engine.step();
        }
    }

    /// The newest cell of every key.
    #[cfg(feature = "simulation")]
    pub fn all_cells(&self) -> Result<Vec<(Vec<u8>, ladoga_model::CellMark)>, Error> {
        let mut range = self.engine.snapshot().range(b"", None);
        let mut cells = Vec::new();
        while let Some((key, cell)) = range.next_cell()? {
            cells.push((key.to_vec(), cell.mark()));
        }
        Ok(cells)
    }

    /// A ring for the calling event loop, if the system permits one.
    fn start_reads(&self, on_pool: &Rc<PoolReads>, supervisor: &Supervisor) -> Option<Rc<Reads>> {
        if self.no_rings.is_some() {
            return None;
        }
        let ring = self.disk.read_ring(RING_READS_MAX);
        let reads = ring.and_then(|ring| {
            Reads::start(ring, Rc::clone(on_pool), Arc::clone(&self.read_counters), supervisor)
        });
        let warn =
            |error: &io::Error| tracing::warn!(%error, "an event loop has no io_uring; it reads by threads");
        reads.inspect_err(warn).ok()
    }
}

impl Store for Embedded {
    type Local = Local;

    fn attach(self: &Arc<Self>, supervisor: &Supervisor) -> Local {
        Local::new(self, supervisor)
    }

    fn last_timestamp(&self) -> u64 {
        // Or else a version could be given to a cell that is older than a token.
        let reserved = if self.is_replica { 0 } else { self.feed.reserved() };
        self.engine.last_timestamp().max(reserved)
    }

    fn failure(&self) -> Option<String> {
        match self.engine.write_state() {
            WriteState::Open | WriteState::DiskFull => {
                self.queue.shared().check().err().map(|error| error.to_string())
            }
            WriteState::Poisoned => Some(poison_reason(&self.engine)),
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        let is_committing = self.queue.shared().check().is_ok();
        let state = if is_committing { self.engine.write_state() } else { WriteState::Poisoned };
        let mut metrics = engine_metrics(&self.engine.statistics(), state);
        metrics.extend(self.queue.metrics());
        metrics.extend(self.pool.metrics());
        metrics.extend(self.read_counters.metrics());
        metrics.extend(self.feed.metrics());
        metrics
    }

    fn observe(&self, observer: Arc<dyn CellObserver>) -> io::Result<()> {
        self.queue.observe(Arc::clone(&observer));
        self.scan.start(self.queue.shared(), observer, &*self.workers)
    }

    fn gate(&self, gate: Arc<dyn CellGate>) {
        self.queue.gate(gate);
    }

    fn order(&self, order: Arc<dyn CellOrder>) {
        self.feed.order(order);
    }

    fn arrivals(&self, arrivals: Arc<dyn Arrivals>) {
        self.feed.order_of_arrival(arrivals);
    }

    fn tell_again(&self) {
        self.scan.again();
    }

    fn drop_tombstones_before(&self, timestamp: u64) {
        self.feed.drop_tombstones_before(timestamp);
    }

    fn drop_values_expired_before_ms(&self, time_ms: u64) {
        self.engine.drop_values_expired_before_ms(time_ms);
    }

    fn close(&self) -> Result<(), StoreError> {
        self.scan.stop();
        self.pool.close();
        self.checkpoints.close();
        // After a panic in the middle of a write, the memtable must not be flushed to tables. The log has every acknowledged
        // write, as after a crash.
        self.queue.close()?;
        self.engine.close().map_err(|error| StoreError::Failed { reason: error.to_string() })
    }
}

fn poison_reason(engine: &Engine) -> String {
    let reason = engine.poison_reason().unwrap_or_else(|| "a write failed".to_owned());
    format!("writes are refused until the node is restarted: {reason}")
}

/// What an error of a read is to a client.
fn read_error(error: &Error) -> StoreError {
    if let Error::SnapshotTooOld { .. } = error {
        tracing::warn!(%error, "a range was aborted");
        return StoreError::OverCapacity {
            bound: "there is not enough memory for the snapshot of the range",
        };
    }
    if error.is_out_of_descriptors() {
        tracing::debug!(%error, "a read was refused");
        return out_of_descriptors();
    }
    tracing::error!(%error, "a read failed");
    StoreError::Unreadable { reason: error.to_string() }
}

/// What a read is answered that needs a file, as long as no more can be open.
const fn out_of_descriptors() -> StoreError {
    StoreError::OverCapacity { bound: "the limit of open files and connections is reached (ulimit -n)" }
}

/// What a panic of a read is to a client.
fn panicked() -> StoreError {
    StoreError::Unreadable { reason: "reading it panicked".to_owned() }
}

/// What an error of a write is to a client.
fn write_error(error: &Error) -> StoreError {
    let reason = error.to_string();
    if error.is_disk_full() { StoreError::NoRoom { reason } } else { StoreError::Failed { reason } }
}

#[cfg(test)]
mod asked_tests;
#[cfg(test)]
mod checkpoints_tests;
#[cfg(test)]
mod prepare_tests;
#[cfg(test)]
mod restamp_tests;
#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod several_keys_tests;
#[cfg(test)]
mod update_tests;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use ladoga_env::real::Threads;
    use ladoga_env::{Worker, WorkerHandle, sim};

    /// A system that has only so many threads left.
    struct Few(AtomicUsize);

    impl Workers for Few {
        fn start(&self, name: &str, worker: Box<dyn Worker>) -> io::Result<Arc<dyn WorkerHandle>> {
            let taken =
                self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left: usize| left.checked_sub(1));
            taken.map_err(|_| io::Error::from_raw_os_error(11))?;
            Threads.start(name, worker)
        }
    }

    /// Too few threads used to be a panic, and all that an operator read was that the node had panicked.
    #[test]
    fn where_the_system_has_too_few_threads_nothing_is_opened_and_nothing_held() {
        let (env, _disk, _clock) = sim::env(1);
        let open = |workers: Arc<dyn Workers>| {
            let options = Options::new(64 << 20, Durability::Never);
            Embedded::open_replica(Env { workers, ..env.clone() }, Path::new("/data"), options)
        };
        for threads in [0, 1, 2, 16] {
            let error = open(Arc::new(Few(AtomicUsize::new(threads)))).err();
            let error = error.expect("too few threads").to_string();
            assert!(error.starts_with("cannot start a thread: Resource temporarily unavailable"), "{error}");
            open(Arc::new(Threads)).expect("nobody has the directory").close().expect("a store that closes");
        }
    }
}
