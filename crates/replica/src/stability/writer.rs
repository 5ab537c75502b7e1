use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ladoga_cluster::Regression;
use ladoga_env::{Env, Turn, Worker, WorkerHandle};
use ladoga_model::HybridClock;

use super::cluster_clock::ClusterClock;
use super::state::{Stability, ToPersist};
use crate::membership::PeerView;
use crate::membership::durable;
use crate::membership::{MembershipFile, Provenance};
use ladoga_runtime::Supervisor;

/// How often the write floor and the drop limits advance, and are written if they changed.
const ADVANCE_EVERY_MS: u64 = 100;
/// How often it checks whether the writes that were admitted before have ended.
const WAIT_MS: u64 = 2;
/// After how many looks it says that another process runs as this node: what peers report may have been late before.
const DISPLACED_LOOKS: u64 = 3_000 / ADVANCE_EVERY_MS;

/// The worker that persists what a node promises to others.
pub(crate) struct StabilityWriter {
    stops: Arc<AtomicBool>,
    worker: Arc<dyn WorkerHandle>,
}

struct StabilityWorker {
    env: Env,
    dir: PathBuf,
    stability: Arc<Stability>,
    versions: Arc<ClusterClock>,
    views: Vec<Arc<PeerView>>,
    stops: Arc<AtomicBool>,
    membership: MembershipFile,
    /// Those of its list.
    names: Vec<u64>,
    /// Whether the directory does not say yet that its files are this node's.
    is_to_be_claimed: bool,
    /// The last regression that the log has.
    told: Option<Regression>,
    has_told_outdated: bool,
    /// How many times in a row another process was found to run as this node.
    displaced_looks: u64,
    /// What waits for the writes that were admitted before.
    to_persist: Option<ToPersist>,
}

impl StabilityWriter {
    /// Writes for the first time, and goes on doing so.
    pub(crate) fn start(
        env: &Env,
        (dir, membership): (&Path, &MembershipFile),
        stability: &Arc<Stability>,
        versions: &Arc<ClusterClock>,
        views: &[Arc<PeerView>],
        supervisor: &Supervisor,
    ) -> io::Result<StabilityWriter> {
        let stops = Arc::<AtomicBool>::default();
        let mut worker = StabilityWorker {
            env: env.clone(),
            dir: dir.to_path_buf(),
            stability: Arc::clone(stability),
            versions: Arc::clone(versions),
            views: views.to_vec(),
            stops: Arc::clone(&stops),
            membership: membership.clone(),
            names: membership.nodes.name_hashes(),
            is_to_be_claimed: membership.provenance == Provenance::Copied,
            told: None,
            has_told_outdated: false,
            displaced_looks: 0,
            to_persist: None,
        };
        if membership.provenance == Provenance::Copied {
            tracing::warn!(
                "the data directory {} was copied or restored: the node's answers do not count until each of the other nodes has \
                 confirmed that no acknowledged write is missing",
                dir.display()
            );
        }
        versions.starts_after(stability.clock_floor());
        worker.advance()?;
        let worker = supervisor.start(&*env.workers, "stability", worker)?;
        stability.set_writer(Arc::clone(&worker));
        Ok(StabilityWriter { stops, worker })
    }

    /// Ends the worker.
    pub(crate) fn close(&self) {
        self.stops.store(true, Ordering::Release);
        self.worker.wake();
        // If it panicked, the supervisor has reported it.
        self.worker.join();
    }
}

impl Drop for StabilityWriter {
    fn drop(&mut self) {
        self.close();
    }
}

impl Worker for StabilityWorker {
    fn turn(&mut self) -> Turn {
        let stops = self.stops.load(Ordering::Acquire);
        // At the end, what was heard last is written: after a restart the node may be alone.
        let written = match self.advance() {
            Ok(false) if !stops => return Turn::WaitFor(Duration::from_millis(WAIT_MS)),
            Ok(_) if !stops => self.claim(),
            written => written.map(drop),
        };
        // What cannot be written is not promised; the next attempt may do.
        if let Err(error) = written {
            tracing::warn!("the replica state cannot be written: {error}");
        }
        if stops { Turn::Over } else { Turn::WaitFor(Duration::from_millis(ADVANCE_EVERY_MS)) }
    }
}

impl StabilityWorker {
    /// Moves the write floor and the drop limits on, and writes them unless writes that were admitted before are not over. Answers whether it is
    /// written.
    fn advance(&mut self) -> io::Result<bool> {
        if self.to_persist.is_none() {
            let oldest = self.views.iter().map(|view| view.hints_oldest.load(Ordering::Relaxed)).min();
            let oldest = oldest.filter(|&oldest| oldest != u64::MAX);
            self.versions.look();
            self.stability.tick(self.versions.next(), self.versions.time_ms(), oldest);
            self.to_persist = self.stability.to_persist();
        }
        let Some(to_persist) = self.to_persist.take_if(|to_persist| to_persist.is_ready()) else {
            return Ok(self.to_persist.is_none());
        };
        durable::write(&*self.env.disk, &self.dir, &to_persist.durable, &self.names)?;
        self.stability.persisted(to_persist.durable);
        Ok(true)
    }

    /// Says that there is something to be done about the directory.
    fn warn_if_outdated(&mut self) {
        if self.stability.is_outdated() && !std::mem::replace(&mut self.has_told_outdated, true) {
            tracing::error!(
                "the data directory {} is from before this node left the list of nodes. What was deleted since then may still be \
                 there: its data are not used, and new nodes wait. Stop this node, and start it with an empty directory",
                self.dir.display()
            );
        }
    }

    /// Says that peers listen to another process, for as long as they do: this one cannot go on beside it.
    fn warn_if_displaced(&mut self) {
        let displaced_at = self.stability.displaced_at();
        self.displaced_looks = displaced_at.map_or(0, |_| self.displaced_looks + 1);
        let is_certain = self.displaced_looks >= DISPLACED_LOOKS;
        for view in &self.views {
            let hears_another = is_certain && displaced_at == Some(view.id);
            view.hears_another_process.store(hears_another, Ordering::Relaxed);
        }
        if let Some(peer) = displaced_at.filter(|_| self.displaced_looks == DISPLACED_LOOKS) {
            tracing::error!(
                "another process runs, or ran, as this node: {} listens to that one and no longer to this one, whose answers do not \
                 count. Stop the other process, which has the same --advertise, and then restart this node",
                self.views[peer.index()].url,
            );
        }
    }

    /// Marks the directory as this node's, once the others were heard; and logs what they know.
    fn claim(&mut self) -> io::Result<()> {
        self.warn_if_outdated();
        self.warn_if_displaced();
        let regression = self.stability.regression();
        if let Some(regression) = regression
            && self.told.replace(regression) != Some(regression)
        {
            self.tell(regression);
            self.is_to_be_claimed = true;
        }
        if self.is_to_be_claimed && !self.stability.is_unverified() {
            let store = self.stability.statement(0, 0).incarnation.0;
            MembershipFile { store, ..self.membership.clone() }.write(&*self.env.disk, &self.dir)?;
            self.is_to_be_claimed = false;
            if regression.is_none() {
                tracing::warn!("the data directory {} has all acknowledged writes", self.dir.display());
            }
        }
        Ok(())
    }

    fn tell(&self, regression: Regression) {
        let Regression { peer, known, found, is_by_another_process } = regression;
        // Timestamps that were given out are not given out again; a wrong clock is not followed here either.
        let _ = self.versions.observe(known.reserved);
        if is_by_another_process {
            tracing::error!(
                "another process was started as this node: {} has heard it, and it may have acknowledged writes that {} lacks. This node \
                 rejoins as one that lost its data. Its answers do not count until it has copied the data of the other nodes. Make \
                 sure that only one process runs with its --advertise",
                self.views[peer.index()].url,
                self.dir.display(),
            );
            return;
        }
        let newer_ms = |known, found| HybridClock::wall_ms(known).saturating_sub(HybridClock::wall_ms(found));
        let what = if known.written > found.written {
            format!("a write {} ms newer than its newest one", newer_ms(known.written, found.written))
        } else if known.reserved > found.reserved && found.reserved == 0 {
            // A time since 1970 would say nothing.
            "its use".to_owned()
        } else if known.reserved > found.reserved {
            format!("its use for {} ms more", newer_ms(known.reserved, found.reserved))
        } else {
            "a later one, which was rebuilt".to_owned()
        };
        tracing::warn!(
            "the data directory {} lacks writes that this node acknowledged: {} knows of {what}. The node rejoins as one that \
             lost its data. Its answers do not count until it has copied the data of the other nodes",
            self.dir.display(),
            self.views[peer.index()].url,
        );
    }
}
