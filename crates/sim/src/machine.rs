//! A machine: its disk, its clock and its place in the network stay, its processes come and go.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use ladoga_cluster::{NodeId, NodeList, Placement};
use ladoga_env::sim::{SimClock, SimDisk, SimHost, SimNet, SimRng, Tasks};
use ladoga_env::{Clock, Disk, Env, Net, Workers};
use ladoga_local::embedded::Embedded;
use ladoga_local::store::Store;
use ladoga_model::CellMark;
use ladoga_replica::simulated::SimulatedNode;
use ladoga_replica::{Membership, MembershipFile, PeerLimits};
use ladoga_storage::{Background, Durability, Options};
use parking_lot::Mutex;
use tokio::task::LocalSet;

use crate::checker::Checker;
use crate::faults::{BACKUPS_MAX, Hands};
use crate::store::{Watched, Watcher};
use crate::values::Key;

const DATA: &str = "/data";
const PORT: u16 = 80;
/// Small, so that lists have pages.
const LIST_KEYS_MAX: usize = 3;
const LIST_SCAN_MAX: usize = 8;
/// How often the lateness of a node is measured: in a simulation time does not pass while it works.
const NEVER_LATE_EVERY_MS: u64 = 250;
/// How long a request of a client may take.
pub(crate) const REQUEST_MS: u64 = 1_000;

/// A file as it was, and the number that the file system had for it.
#[derive(Clone)]
struct Backup {
    path: PathBuf,
    bytes: Vec<u8>,
    number: u64,
}

/// Tells which machines have something to do: of a turn of the world, most have nothing.
struct Alarm {
    is_on: AtomicBool,
    /// Of who runs the machines.
    world: Mutex<Waker>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_on.store(true, Ordering::Relaxed);
        self.world.lock().wake_by_ref();
    }
}

/// A process: its tasks, and what they do.
pub(crate) struct Process {
    pub(crate) tasks: LocalSet,
    pub(crate) node: SimulatedNode<Watched>,
    pub(crate) store: Arc<Watched>,
}

pub(crate) struct Machine {
    /// Its number, whatever lists of nodes it is in: that of the world, and of the checks.
    pub(crate) index: usize,
    /// Its place in the list of nodes, if it is in that.
    pub(crate) id: NodeId,
    pub(crate) address: IpAddr,
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    host: SimHost,
    pub(crate) process: Option<Process>,
    /// Counts the processes.
    pub(crate) session: u64,
    pub(crate) paused_until_us: u64,
    pub(crate) hands: Hands,
    /// Every file as it was before each of the last processes began, the latest last; and whether the process before it had
    /// all its data.
    backups: VecDeque<(Vec<Backup>, bool)>,
    /// Whether the process that ended last had all its data.
    was_whole: bool,
    alarm: Arc<Alarm>,
    /// Of writes that ask for none.
    pub(crate) durability: Durability,
    pub(crate) workers: Arc<dyn Workers>,
    seed: u64,
}

/// What all machines have in common.
pub(crate) struct Common {
    /// The machines that are in the list of nodes, by their places there.
    pub(crate) members: Vec<usize>,
    pub(crate) nodes: NodeList,
    pub(crate) placement: Arc<Placement>,
    pub(crate) checker: Arc<Mutex<Checker>>,
}

impl Common {
    /// With these machines in the list of nodes, in order.
    pub(crate) fn new(members: Vec<usize>, checker: Arc<Mutex<Checker>>) -> Common {
        let nodes = NodeList::first(members.iter().map(|index| format!("http://node-{index}")));
        let nodes = nodes.expect("a list");
        let placement = placement_of(&nodes);
        Common { members, nodes, placement, checker }
    }

    /// The same with another list of nodes.
    pub(crate) fn listing(&self, members: Vec<usize>) -> Common {
        Common::new(members, Arc::clone(&self.checker))
    }
}

/// Placement takes longer than many a run, and depends on the list of nodes only.
fn placement_of(nodes: &NodeList) -> Arc<Placement> {
    static PLACEMENTS: Mutex<BTreeMap<u64, Arc<Placement>>> = Mutex::new(BTreeMap::new());
    let compute = || Arc::new(Placement::of(nodes));
    Arc::clone(PLACEMENTS.lock().entry(nodes.fingerprint()).or_insert_with(compute))
}

fn options(durability: Durability) -> Options {
    Options {
        background: Background::Manual,
        memtable_bytes: Some(8 << 10),
        table_bytes: Some(4 << 10),
        level_1_bytes: Some(8 << 10),
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, durability)
    }
}

impl Machine {
    pub(crate) fn new(index: usize, net: &SimNet, seed: u64) -> Machine {
        let clock = SimClock::new();
        let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, index as u8 + 1));
        Machine {
            index,
            id: NodeId(index as u16),
            address,
            disk: SimDisk::new(seed, clock.clone()),
            clock,
            host: net.add_host(&format!("node-{index}"), address),
            process: None,
            session: 0,
            paused_until_us: 0,
            hands: Hands::default(),
            backups: VecDeque::new(),
            was_whole: false,
            alarm: Arc::new(Alarm { is_on: AtomicBool::new(true), world: Mutex::new(Waker::noop().clone()) }),
            durability: Durability::Always,
            workers: Arc::new(Tasks),
            seed,
        }
    }

    /// Brings the clock to the time of the world.
    pub(crate) fn catch_up(&self, now_us: u64) {
        let behind_ns = (now_us * 1000).saturating_sub(self.clock.monotonic_ns());
        self.clock.advance(Duration::from_nanos(behind_ns));
    }

    /// Lets the process run until it waits, if it has something to do. A suspended process does it when it is resumed. Answers
    /// whether it did anything.
    pub(crate) fn run(&mut self, now_us: u64, context: &Context<'_>) -> bool {
        if self.paused_until_us > now_us {
            return false;
        }
        if self.process.is_none() {
            return false;
        }
        self.alarm.world.lock().clone_from(context.waker());
        if !self.alarm.is_on.swap(false, Ordering::Relaxed) {
            return false;
        }
        self.catch_up(now_us);
        let waker = Waker::from(Arc::clone(&self.alarm));
        if let Some(process) = &mut self.process {
            let _ = Pin::new(&mut process.tasks).poll(&mut Context::from_waker(&waker));
        }
        true
    }

    /// Starts a process. One that does not start leaves none.
    pub(crate) fn start(&mut self, common: &Common, net: &SimNet) -> Result<(), String> {
        self.disk.power_on();
        net.power_on(self.address);
        if self.backups.len() == BACKUPS_MAX {
            self.backups.pop_front();
        }
        let files = self.files();
        if !files.is_empty() {
            self.backups.push_back((files, self.was_whole));
        }
        self.session += 1;
        let env = Env {
            disk: Arc::new(self.disk.attached()),
            clock: Arc::new(self.clock.clone()),
            rng: Arc::new(SimRng::new(self.seed ^ self.session.wrapping_mul(0x9e37_79b9))),
            net: Arc::new(self.host.clone()),
            workers: Arc::clone(&self.workers),
        };
        let tasks = LocalSet::new();
        let started = {
            let _within = tasks.enter();
            self.start_node(&env, common)
        };
        let (node, store) = started?;
        self.process = Some(Process { tasks, node, store });
        self.alarm.is_on.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn start_node(
        &self,
        env: &Env,
        common: &Common,
    ) -> Result<(SimulatedNode<Watched>, Arc<Watched>), String> {
        let dir = Path::new(DATA);
        let why = |error: &dyn std::fmt::Display| error.to_string();
        env.disk.create_dir_all(dir).map_err(|error| why(&error))?;
        let embedded = Embedded::open_replica(env.clone(), dir, options(self.durability))
            .map_err(|error| why(&error))?;
        let kept = MembershipFile::keep(env, dir, &common.nodes, self.id).map_err(|error| why(&error))?;
        let placement = Arc::clone(&common.placement);
        let (machine, node) = (self.index, self.id);
        let watcher = Watcher { machine, node, placement, checker: Arc::clone(&common.checker) };
        let store = Arc::new(Watched { inner: Arc::new(embedded), watcher });
        let addresses = common.members.iter().map(|index| (format!("node-{index}"), PORT)).collect();
        let membership = Membership { nodes: common.nodes.clone(), own: self.id, addresses };
        let limits = PeerLimits {
            quorum_timeout_ms: REQUEST_MS,
            list_keys_max: LIST_KEYS_MAX,
            list_scan_max: LIST_SCAN_MAX,
            lateness_every_ms: NEVER_LATE_EVERY_MS,
            ..PeerLimits::default()
        };
        let placement = Arc::clone(&common.placement);
        let of = (&membership, limits, placement);
        // A third of them often has no place for one more.
        let places = if self.seed.is_multiple_of(3) { 4 } else { 64 };
        let node = SimulatedNode::start(env, dir, of, (&kept, places), Arc::clone(&store));
        let node = node.map_err(|error| why(&error))?;
        let listener = self.host.listen((self.address, PORT).into()).map_err(|error| why(&error))?;
        node.listen(listener);
        Ok((node, store))
    }

    /// Ends the process as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.disk.kill_process();
        self.end();
        self.disk.clear_faults();
        self.disk.set_capacity(None);
    }

    /// Cuts the power, or finds that it is cut.
    pub(crate) fn lose_power(&mut self, net: &SimNet) {
        net.power_off(self.address);
        self.end();
    }

    fn end(&mut self) {
        self.was_whole = self.is_whole();
        self.process = None;
    }

    /// Puts an empty disk in place of the one that there is.
    pub(crate) fn lose_disk(&mut self) {
        self.kill();
        self.seed = self.seed.wrapping_add(1);
        self.disk = SimDisk::new(self.seed, self.clock.clone());
    }

    /// Rolls the disk back to its state before a process began: the one that runs now, or one so many before it; copied file by
    /// file, or as a whole.
    pub(crate) fn restore_backup(&mut self, (age, was_whole): (usize, bool), is_copied: bool) {
        let all: Vec<_> = self.backups.iter().collect();
        let whole: Vec<_> = self.backups.iter().filter(|(_, was_whole)| *was_whole).collect();
        let from = if was_whole && !whole.is_empty() { whole } else { all };
        let backup = from[from.len().saturating_sub(age + 1)].0.clone();
        self.lose_disk();
        for Backup { path, bytes, number } in backup {
            // Far from the numbers that there were.
            let number = if is_copied { number + (1 << 20) * self.session } else { number };
            self.disk.plant_as(&path, &bytes, number);
        }
    }

    /// Every file with its bytes.
    fn files(&self) -> Vec<Backup> {
        let paths = self.disk.paths().into_iter();
        let backup = |path: PathBuf| {
            let (bytes, number) = (self.disk.read_file(&path).ok()?, self.disk.file_number(&path).ok()?);
            Some(Backup { path, bytes, number })
        };
        paths.filter_map(backup).collect()
    }

    /// Takes this place in another list of nodes, as an operator has it do: its directory forgets the list before. (It may be gone
    /// already.) No backup from before that is of any use.
    pub(crate) fn takes_place(&mut self, id: NodeId) {
        self.id = id;
        self.backups.clear();
        self.disk.power_on();
        self.disk.clear_faults();
        let (disk, dir) = (self.disk.attached(), Path::new(DATA));
        if disk.remove(&dir.join("nodes")).is_ok() {
            disk.sync_dir(dir).expect("a directory without faults");
        }
    }

    /// Whether every other machine of these has on its disk that it has heard the current process.
    pub(crate) fn is_remembered_by(&self, machines: &[Machine], members: &[usize]) -> bool {
        let Some(own) = &self.process else { return false };
        let session = own.node.view().session;
        let knows = |other: &Machine| {
            other.process.as_ref().is_some_and(|process| process.node.remembered_session(self.id) == session)
        };
        let mut others = members.iter().map(|&index| &machines[index]);
        !self.backups.is_empty() && others.all(|other| other.index == self.index || knows(other))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.node.view().is_whole)
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.store.failure().is_some())
    }

    /// The newest cell of every key; or why they cannot be read.
    pub(crate) fn cells(&self) -> Result<BTreeMap<Key, CellMark>, String> {
        let process = self.process.as_ref().ok_or("it is down")?;
        let cells = process.store.inner.all_cells().map_err(|error| error.to_string())?;
        Ok(cells.into_iter().collect())
    }

    /// Bytes of all files.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk.paths().iter().filter_map(|path| self.disk.file_len(path).ok()).sum()
    }
}
