use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ladoga_cluster::Regression;
use ladoga_env::Env;
use ladoga_model::HybridClock;
use parking_lot::Mutex;

use super::cluster_clock::ClusterClock;
use super::settled::Settled;
use crate::membership::PeerView;
use crate::membership::durable;
use crate::membership::{Kept, Provenance};
use ladoga_runtime::Vital;

/// How often it is looked what can be settled, and what has to be written.
const SETTLE_EVERY_MS: u64 = 100;
/// How often it is looked whether the writes that were admitted before are over.
const WAIT_MS: u64 = 2;

/// The thread that keeps on disk what a node says to others about time.
pub(crate) struct Settler {
    stops: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Worker {
    env: Env,
    dir: PathBuf,
    settled: Arc<Settled>,
    versions: Arc<ClusterClock>,
    views: Vec<Arc<PeerView>>,
    stops: Arc<AtomicBool>,
    kept: Kept,
    /// Whether the directory does not say yet that its files are this node's.
    is_to_be_claimed: Cell<bool>,
    has_told: Cell<bool>,
}

impl Settler {
    /// Writes for the first time, and goes on doing so.
    pub(crate) fn start(
        env: &Env,
        (dir, kept): (&Path, &Kept),
        settled: &Arc<Settled>,
        versions: &Arc<ClusterClock>,
        views: &[Arc<PeerView>],
        vital: &Vital,
    ) -> io::Result<Settler> {
        let stops = Arc::<AtomicBool>::default();
        let worker = Worker {
            env: env.clone(),
            dir: dir.to_path_buf(),
            settled: Arc::clone(settled),
            versions: Arc::clone(versions),
            views: views.to_vec(),
            stops: Arc::clone(&stops),
            kept: kept.clone(),
            is_to_be_claimed: Cell::new(kept.provenance == Provenance::Copied),
            has_told: Cell::new(false),
        };
        if kept.provenance == Provenance::Copied {
            tracing::warn!(
                "the data directory {} was copied or restored: the answers of this node do not count until it has heard from \
                 each of the other nodes that what it acknowledged is there",
                dir.display()
            );
        }
        versions.starts_after(settled.clock_floor());
        worker.settle()?;
        let thread = vital.spawn("settle".to_owned(), move || worker.run())?;
        settled.is_persisted_by(thread.thread().clone());
        Ok(Settler { stops, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the thread.
    pub(crate) fn close(&self) {
        self.stops.store(true, Ordering::Release);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            // Whether it panicked, the node was told.
            let _ = thread.join();
        }
    }
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.close();
    }
}

impl Worker {
    fn run(self) {
        while !self.stops.load(Ordering::Acquire) {
            // What cannot be written is not promised; the next attempt may do.
            if let Err(error) = self.settle().and_then(|()| self.claim()) {
                tracing::warn!("what is settled cannot be written: {error}");
            }
            std::thread::park_timeout(Duration::from_millis(SETTLE_EVERY_MS));
        }
        // What was heard last is kept: a node that comes back may be alone.
        if let Err(error) = self.settle() {
            tracing::warn!("what is settled cannot be written: {error}");
        }
    }

    fn settle(&self) -> io::Result<()> {
        let oldest = self.views.iter().map(|view| view.hints_oldest.load(Ordering::Relaxed)).min();
        let oldest = oldest.filter(|&oldest| oldest != u64::MAX);
        self.versions.look();
        self.settled.tick(self.versions.next(), self.versions.time_ms(), oldest);
        let Some(to_persist) = self.settled.to_persist() else { return Ok(()) };
        while !to_persist.is_ready() && !self.stops.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(WAIT_MS));
        }
        if !to_persist.is_ready() {
            return Ok(());
        }
        durable::write(&*self.env.disk, &self.dir, &to_persist.durable)?;
        self.settled.persisted(to_persist.durable);
        Ok(())
    }

    /// Has the directory say that it is this node's, once the others were heard; and says what they know.
    fn claim(&self) -> io::Result<()> {
        let regression = self.settled.regression();
        if let Some(regression) = regression
            && !self.has_told.replace(true)
        {
            self.tell(regression);
            self.is_to_be_claimed.set(true);
        }
        if self.is_to_be_claimed.get() && !self.settled.is_unverified() {
            let store = self.settled.statement(0, 0).incarnation.0;
            Kept { store, ..self.kept.clone() }.write(&*self.env.disk, &self.dir)?;
            self.is_to_be_claimed.set(false);
            if regression.is_none() {
                tracing::warn!("the data directory {} has what was acknowledged", self.dir.display());
            }
        }
        Ok(())
    }

    fn tell(&self, regression: Regression) {
        let Regression { peer, known, found } = regression;
        // Nothing is stamped again that was stamped before; a clock that was wrong is no more followed than any other.
        let _ = self.versions.observe(known.reserved);
        let newer_ms = |known, found| HybridClock::wall_ms(known).saturating_sub(HybridClock::wall_ms(found));
        let what = if known.written > found.written {
            format!("a write {} ms newer than its newest one", newer_ms(known.written, found.written))
        } else if known.reserved > found.reserved {
            format!("its use for {} ms more", newer_ms(known.reserved, found.reserved))
        } else {
            "a later one, which was rebuilt".to_owned()
        };
        tracing::warn!(
            "the data directory {} is older than what this node acknowledged: {} knows of {what}. What came after it is lost \
             here: the node rejoins as one that lost its data, and its answers do not count until it has taken over what the \
             others have",
            self.dir.display(),
            self.views[peer.index()].url,
        );
    }
}
