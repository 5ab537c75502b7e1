//! Three nodes whose disks fail each other in ways that no seed has: they sync no write by themselves (`--fsync never`), or hang.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use ladoga_env::sim::{PowerCut, Tasks};
use ladoga_env::{Disk, Turn, Worker, WorkerHandle, Workers};
use ladoga_model::{CellMark, Replicas, Stamp};
use ladoga_service::{Context, Error, KeyRange, KeySpan, KeyValue, RecordFormat, Scope, StoreError};
use ladoga_storage::Durability;
use tokio::sync::oneshot::{self, Receiver};

use super::*;
use crate::clients::Wish;
use crate::machine::{Process, REQUEST_MS};
use crate::request::{self, Request};

const KEY: &[u8] = b"key";
const ALL: Replicas = Replicas { ack: 3, from: 3 };
const MAJORITY: Replicas = Replicas { ack: 2, from: 3 };
/// How long it takes at most until all that is deleted has been pulled by all.
const STABLE_MS_MAX: u64 = 300_000;

fn put() -> Wish {
    Wish::Put { value: 1_u64.to_le_bytes().to_vec(), ttl: None }
}

fn on_paused_time(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test);
}

/// Three nodes, and nothing that happens by itself.
async fn three_nodes(prepare: impl Fn(&mut Machine)) -> World {
    let mut world = World::new(1, Settings { load: Load::Targeted, ..Settings::default() });
    world.events.clear();
    for node in 0..3 {
        prepare(&mut world.machines[node]);
        world.begin(node);
    }
    world.pass(5_000).await;
    assert!(world.are_all_whole());
    world
}

impl Process {
    /// Pulls from a peer that did not work out.
    fn failed_pulls(&self) -> u64 {
        let report = self.node.report();
        let (_, failures) = report.rsplit_once("\"failures\":").expect("the progress of repair");
        let failures = failures.trim_start();
        let end = failures.find(|byte: char| !byte.is_ascii_digit()).expect("more of it");
        failures[..end].parse().expect("a number")
    }
}

impl World {
    fn begin(&mut self, node: usize) {
        let now_us = self.now_us();
        self.machines[node].catch_up(now_us);
        self.machines[node].start(&self.common, &self.net).expect("a node that starts");
    }

    async fn pass(&mut self, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < until {
            self.run_machines_until(until).await;
        }
    }

    /// A request of a client that a node answers soon.
    async fn ask_for(&mut self, node: usize, wish: Wish, replicas: Replicas) {
        let mut told = self.begin_to_ask(node, wish, replicas);
        self.pass(500).await;
        told.try_recv().expect("an answer").expect("a write that succeeds");
    }

    fn begin_to_ask(&self, node: usize, wish: Wish, replicas: Replicas) -> Receiver<Result<(), Error>> {
        let process = self.process(node);
        let (service, (tell, told)) = (Rc::clone(process.node.service()), oneshot::channel());
        let request = Request { number: 1, began_us: self.now_us(), node, key: KEY.to_vec(), wish, replicas };
        process.tasks.spawn_local(async move {
            let _ = tell.send(request::ask(&*service, &request).await.map(drop));
        });
        told
    }

    fn process(&self, node: usize) -> &Process {
        self.machines[node].process.as_ref().expect("a node that runs")
    }

    fn cell(&self, node: usize) -> Option<CellMark> {
        let cells = self.machines[node].cells().expect("cells that can be read");
        cells.into_iter().find(|(key, _)| key == KEY).map(|(_, cell)| cell)
    }

    /// Nobody keeps anything for a node that is away.
    fn remove_hints(&mut self, node: usize) {
        self.machines[node].kill();
        let disk = self.machines[node].disk.attached();
        let is_hint = |path: &PathBuf| path.starts_with(Path::new("/data/hints"));
        for path in disk.paths().into_iter().filter(is_hint) {
            disk.remove(&path).expect("a file");
        }
        self.begin(node);
    }
}

/// A node that misses a deletion gets it, as a hint or by anti-entropy, and tells the others that it has all until then. They drop the
/// deletion. It used to be on the disk that it has all, before the deletion was: after a power cut, the key was back for good.
#[test]
fn a_node_that_says_that_it_has_a_deletion_has_it_after_a_power_cut() {
    for comes_as_a_hint in [true, false] {
        on_paused_time(async {
            let mut world = three_nodes(|machine| machine.durability = Durability::Never).await;
            world.ask_for(0, put(), ALL).await;
            // That it has the value is on the disk.
            world.process(2).store.inner.do_background_work(true);
            world.machines[2].kill();
            world.ask_for(0, Wish::Delete, MAJORITY).await;
            let deletion = world.cell(0).expect("a deletion");
            if !comes_as_a_hint {
                world.remove_hints(0);
            }
            world.begin(2);
            let deleted_at = deletion.stamp.version.timestamp;
            for _ in 0..STABLE_MS_MAX / 1_000 {
                world.pass(1_000).await;
                if world.process(2).node.synced_before() > deleted_at {
                    break;
                }
            }
            assert!(world.process(2).node.synced_before() > deleted_at);
            world.machines[2].disk.power_cut(PowerCut::LoseAll);
            world.pass(10).await;
            world.events.clear();
            world.begin(2);
            assert_eq!(world.cell(2), Some(deletion), "as a hint: {comes_as_a_hint}");
        });
    }
}

/// Threads that wait for the disk, and do not come back from it while it hangs.
struct DiskThreads {
    hangs: Arc<AtomicBool>,
}

struct DiskThread {
    hangs: Arc<AtomicBool>,
    worker: Box<dyn Worker>,
}

impl Workers for DiskThreads {
    fn start(&self, name: &str, worker: Box<dyn Worker>) -> io::Result<Arc<dyn WorkerHandle>> {
        let hangs = if name.starts_with("io-") { Arc::clone(&self.hangs) } else { Arc::default() };
        Tasks.start(name, Box::new(DiskThread { hangs, worker }))
    }
}

impl Worker for DiskThread {
    fn turn(&mut self) -> Turn {
        if self.hangs.load(Ordering::Relaxed) {
            return Turn::WaitFor(Duration::from_millis(100));
        }
        self.worker.turn()
    }
}

/// Three nodes of which the last one lacks a key and has a disk that hangs. It tells the others that it is alive.
async fn three_nodes_and_a_hung_disk() -> World {
    let hangs = Arc::<AtomicBool>::default();
    let mut world = three_nodes(|machine| {
        if machine.index == 2 {
            machine.workers = Arc::new(DiskThreads { hangs: Arc::clone(&hangs) });
        }
    })
    .await;
    world.machines[2].kill();
    world.ask_for(0, put(), MAJORITY).await;
    world.remove_hints(0);
    world.begin(2);
    world.pass(3_000).await;
    assert!(world.are_all_whole() && world.cell(2).is_none());
    hangs.store(true, Ordering::Relaxed);
    world
}

struct Keys;

impl RecordFormat for Keys {
    fn wants_values(&self) -> bool {
        false
    }

    fn record(&mut self, out: &mut Vec<u8>, key: &[u8], _: Stamp, _: &[u8]) {
        out.extend_from_slice(key);
    }

    fn begin_large(&mut self, _: &mut Vec<u8>, _: &[u8], _: Stamp, _: u64) {}

    fn large(&mut self, _: &mut Vec<u8>, _: &[u8]) {}

    fn end_large(&mut self, _: &mut Vec<u8>) {}

    fn end(&mut self, _: &mut Vec<u8>) {}
}

/// All keys of the cluster.
async fn keys(service: &impl KeyValue) -> Result<Vec<u8>, StoreError> {
    let span = KeySpan { start: Bytes::new(), end: None, is_reverse: false };
    let range = KeyRange { span, limit: None, scope: Scope::Cluster };
    let pieces = service.range(&Context::new(MAJORITY), range, Box::new(Keys)).await;
    let mut pieces = pieces.map_err(|error| StoreError::Failed { reason: error.to_string() })?;
    let mut all = Vec::new();
    while let Some((bytes, rest)) = pieces.next().await? {
        all.extend_from_slice(&bytes);
        pieces = rest;
    }
    Ok(all)
}

/// What could be read before was all that there was.
#[test]
fn a_node_that_cannot_read_a_cell_says_so() {
    on_paused_time(async {
        let mut world = three_nodes(|_| ()).await;
        world.ask_for(0, put(), ALL).await;
        world.process(0).store.inner.do_background_work(true);
        world.machines[0].kill();
        let disk = &world.machines[0].disk;
        let is_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sst");
        let damaged: Vec<_> = disk.paths().into_iter().filter(is_table).collect();
        assert!(!damaged.is_empty());
        damaged.iter().for_each(|path| disk.corrupt(path, 0, &[0xff; 4]).expect("a file"));
        world.begin(0);
        world.machines[0].cells().expect_err("a block that is damaged");
    });
}

/// It was waited for without an end, although the others have everything.
#[test]
fn a_range_over_the_cluster_goes_on_without_a_node_whose_disk_hangs() {
    on_paused_time(async {
        let mut world = three_nodes_and_a_hung_disk().await;
        let process = world.process(0);
        let (service, (tell, mut told)) = (Rc::clone(process.node.service()), oneshot::channel());
        process.tasks.spawn_local(async move { _ = tell.send(keys(&*service).await) });
        world.pass(5 * REQUEST_MS).await;
        assert_eq!(told.try_recv().expect("an end"), Ok(KEY.to_vec()));
    });
}

/// It waited without an end, and with it all upkeep of a healthy node.
#[test]
fn a_repair_gives_up_a_peer_whose_disk_hangs() {
    on_paused_time(async {
        let mut world = three_nodes_and_a_hung_disk().await;
        // While it owes an answer it refuses more of this kind.
        for expected in ["no answer within 30000 ms", "over capacity"] {
            let number = world.process(0).node.request_repair();
            world.pass(40_000).await;
            let repaired = world.process(0).node.repaired(number).expect("an end");
            let why = repaired.expect_err("nobody knows what the peer has");
            assert!(why.contains(expected), "{why}");
        }
    });
}

/// It had everything listed again half a second after it had ended, for as long as that cell was missing.
#[test]
fn a_rebuild_without_a_cell_that_nobody_can_read_is_made_again_after_a_while() {
    const ANSWERS_MS: u64 = 200;
    on_paused_time(async {
        let mut world = three_nodes(|_| ()).await;
        let large = 1_u64.to_le_bytes().repeat(crate::LARGE_BYTES_MIN / 4);
        world.ask_for(0, Wish::Put { value: large, ttl: None }, ALL).await;
        world.machines[2].lose_disk();
        for node in [0, 1] {
            let disk = &world.machines[node].disk;
            let is_large = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "blob");
            let damaged = disk.paths().into_iter().filter(is_large);
            damaged.for_each(|path| disk.corrupt(&path, 100, &[0xff; 4]).expect("a file"));
            let (from, to) = (world.machines[node].address, world.machines[2].address);
            world.net.slow_down(from, to, Duration::from_millis(ANSWERS_MS));
        }
        world.begin(2);
        world.pass(120_000).await;
        let failures = world.process(2).failed_pulls();
        assert!((2..=40).contains(&failures), "{failures}");
        world.process(2).node.request_repair();
        world.pass(10_000).await;
        assert!(world.process(2).failed_pulls() > failures, "at once after a repair on demand");
    });
}

/// Each attempt of a write that met newer ones had all of the time anew.
#[test]
fn a_write_that_met_newer_ones_is_answered_in_its_time() {
    const ANSWERS_MS: u64 = 650;
    on_paused_time(async {
        let mut world = three_nodes(|_| ()).await;
        world.machines[1].clock.jump_wall_ms(20_000);
        for node in [1, 2] {
            let (from, to) = (world.machines[node].address, world.machines[0].address);
            world.net.slow_down(from, to, Duration::from_millis(ANSWERS_MS));
        }
        let mut newer = world.begin_to_ask(1, put(), MAJORITY);
        world.pass(50).await;
        newer.try_recv().expect("an answer").expect("a write that succeeds");
        // It does not know of the newer version until it is answered, and has to ask once more then.
        let mut told = world.begin_to_ask(0, put(), MAJORITY);
        world.pass(ANSWERS_MS).await;
        assert!(told.try_recv().is_err());
        world.pass(REQUEST_MS - ANSWERS_MS + 50).await;
        told.try_recv().expect("an answer").expect_err("there was no time for another answer");
    });
}
