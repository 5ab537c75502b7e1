//! A machine: its disk and its clock stay, its processes come and go.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ladoga_cluster::{NodeId, Placement};
use ladoga_env::real::Threads;
use ladoga_env::sim::{SimClock, SimDisk, SimNet, SimRng};
use ladoga_env::{Clock, Env};

use crate::Bug;
use crate::checker::Checker;
use crate::faults::Hands;
use crate::process::Process;
use crate::replica::Replica;

/// More than the processes between two disks that are lost, now and then.
pub(crate) const BACKUPS_MAX: usize = 6;

type Backup = Vec<(PathBuf, Vec<u8>)>;

pub(crate) struct Machine {
    pub(crate) id: NodeId,
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    pub(crate) process: Option<Process>,
    /// Counts the processes.
    pub(crate) session: u64,
    pub(crate) paused_until_us: u64,
    pub(crate) hands: Hands,
    /// Every file as it was before each of the last processes began, the latest last.
    backups: VecDeque<Backup>,
    /// Whether the files are copies of those that a process wrote.
    is_unverified: bool,
    seed: u64,
}

impl Machine {
    pub(crate) fn new(id: NodeId, seed: u64) -> Machine {
        let clock = SimClock::new();
        let disk = SimDisk::new(seed, clock.clone());
        Machine {
            id,
            disk,
            clock,
            process: None,
            session: 0,
            paused_until_us: 0,
            hands: Hands::default(),
            backups: VecDeque::new(),
            is_unverified: false,
            seed,
        }
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
        if self.backups.len() == BACKUPS_MAX {
            self.backups.pop_front();
        }
        self.backups.push_back(self.files());
        self.session += 1;
        let env = Env {
            disk: Arc::new(self.disk.attached()),
            clock: Arc::new(self.clock.clone()),
            rng: Arc::new(SimRng::new(self.seed ^ self.session.wrapping_mul(0x9e37_79b9))),
            // Its messages are not sent by it.
            net: Arc::new(SimNet::new(0).add_host("unused", Ipv4Addr::LOCALHOST.into())),
            workers: Arc::new(Threads),
        };
        let replica =
            Replica::open(env, self.id, placement.clone(), nodes, checker.clone(), bug, self.is_unverified)?;
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

    /// Puts a disk in place with what was there before a process began, the one that runs now or one so many before it;
    /// copied file by file, or as a whole.
    pub(crate) fn restore_backup(&mut self, age: usize, is_copied: bool) {
        let backup = self.backups[self.backups.len().saturating_sub(age + 1)].clone();
        self.lose_disk();
        for (path, bytes) in &backup {
            self.disk.plant(path, bytes);
        }
        self.is_unverified = is_copied;
    }

    /// Every file with its bytes.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let paths = self.disk.paths().into_iter();
        paths.filter_map(|path| self.disk.read_file(&path).ok().map(|bytes| (path, bytes))).collect()
    }

    /// Whether every other machine has on its disk that it has heard the process that runs now.
    pub(crate) fn is_remembered_by(&self, others: &[Machine]) -> bool {
        let session = |machine: &Machine| {
            machine.process.as_ref().map(|process| process.replica.tracker.statement(0, 0).session)
        };
        let knows = |other: &Machine| {
            other.process.as_ref().is_some_and(|process| {
                let tracker = &process.replica.tracker;
                Some(tracker.remembered_session(self.id)) == session(self)
            })
        };
        others.iter().all(|other| other.id == self.id || knows(other))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.replica.tracker.is_whole())
    }

    /// Bytes of all files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk.paths().iter().filter_map(|path| self.disk.file_len(path).ok()).sum()
    }
}
