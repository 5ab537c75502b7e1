use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ladoga_env::Env;
use parking_lot::Mutex;

use super::cluster::PeerView;
use super::durable;
use super::settled::Settled;
use crate::versions::VersionClock;
use crate::vital::Vital;

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
    versions: Arc<VersionClock>,
    views: Vec<Arc<PeerView>>,
    stops: Arc<AtomicBool>,
}

impl Settler {
    /// Writes for the first time, and goes on doing so.
    pub(crate) fn start(
        env: &Env,
        dir: &Path,
        settled: &Arc<Settled>,
        versions: &Arc<VersionClock>,
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
        };
        versions.continue_after(settled.clock_floor());
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
            if let Err(error) = self.settle() {
                tracing::warn!("what is settled cannot be written: {error}");
            }
            std::thread::park_timeout(Duration::from_millis(SETTLE_EVERY_MS));
        }
    }

    fn settle(&self) -> io::Result<()> {
        let oldest = self.views.iter().map(|view| view.hints_oldest.load(Ordering::Relaxed)).min();
        let oldest = oldest.filter(|&oldest| oldest != u64::MAX);
        let wall_ms = self.env.clock.wall_ms();
        self.settled.tick(self.versions.next(wall_ms), wall_ms, oldest);
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
}
