//! A machine: its disk and its clock stay, its processes come and go.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ladoga_cluster::{NodeId, Placement};
use ladoga_env::sim::{SimClock, SimDisk, SimRng};
use ladoga_env::{Clock, Env};

use crate::Bug;
use crate::checker::Checker;
use crate::process::Process;
use crate::replica::Replica;

pub(crate) struct Machine {
    pub(crate) id: NodeId,
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    pub(crate) process: Option<Process>,
    /// Counts the processes.
    pub(crate) session: u64,
    pub(crate) paused_until_us: u64,
    /// How far the wall clock has been moved.
    pub(crate) skew_ms: i64,
    seed: u64,
}

impl Machine {
    pub(crate) fn new(id: NodeId, seed: u64) -> Machine {
        let clock = SimClock::new();
        let disk = SimDisk::new(seed, clock.clone());
        Machine { id, disk, clock, process: None, session: 0, paused_until_us: 0, skew_ms: 0, seed }
    }

    /// Brings the clock to the time of the world.
    pub(crate) fn catch_up(&self, now_us: u64) {
        let behind_ns = (now_us * 1000).saturating_sub(self.clock.monotonic_ns());
        self.clock.advance(Duration::from_nanos(behind_ns));
    }

    /// Starts a process. One that does not start leaves none.
    pub(crate) fn start(
        &mut self,
        placement: &Arc<Placement>,
        nodes: usize,
        checker: &Rc<RefCell<Checker>>,
        bug: Option<Bug>,
    ) -> Result<(), String> {
        self.disk.power_on();
        self.session += 1;
        let env = Env {
            disk: Arc::new(self.disk.attached()),
            clock: Arc::new(self.clock.clone()),
            rng: Arc::new(SimRng::new(self.seed ^ self.session.wrapping_mul(0x9e37_79b9))),
        };
        let replica = Replica::open(env, self.id, placement.clone(), nodes, checker.clone(), bug)?;
        self.process = Some(Process::new(replica, nodes, self.session)?);
        Ok(())
    }

    /// Ends the process as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.disk.kill_process();
        self.process = None;
        self.disk.clear_faults();
        self.disk.set_capacity(None);
    }

    /// Puts an empty disk in place of the one that there is.
    pub(crate) fn lose_disk(&mut self) {
        self.kill();
        self.seed = self.seed.wrapping_add(1);
        self.disk = SimDisk::new(self.seed, self.clock.clone());
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.replica.settlement.is_whole())
    }

    /// Bytes of all files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk.paths().iter().filter_map(|path| self.disk.file_len(path).ok()).sum()
    }
}
