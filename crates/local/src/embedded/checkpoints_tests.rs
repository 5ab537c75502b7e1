//! For how long a checkpoint is kept, by a clock that moves only when it is told to.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use ladoga_env::sim::{self, Fault, Operation, SimClock, SimDisk};
use ladoga_env::{Disk, Env, File, Lock, OpenMode, Turn, Worker, WorkerHandle, Workers};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Background, Durability, Engine, Options, WriteBatch};
use parking_lot::Mutex;

use super::checkpoints::Checkpoints;
use crate::store::{BackupAnswer, BackupStep, Error, StoreError};

const DIR: &str = "/data";
/// What the manual promises.
const LEASE: Duration = Duration::from_mins(1);

/// Keeps a worker that is started, so that the test takes its turns.
#[derive(Default)]
struct Turns(Arc<Mutex<Vec<Box<dyn Worker>>>>);

/// It is nowhere.
struct NoThread;

impl WorkerHandle for NoThread {
    fn wake(&self) {}

    fn join(&self) -> bool {
        true
    }
}

impl Workers for Turns {
    fn start(&self, _: &str, worker: Box<dyn Worker>) -> io::Result<Arc<dyn WorkerHandle>> {
        self.0.lock().push(worker);
        Ok(Arc::new(NoThread))
    }
}

struct Node {
    checkpoints: Checkpoints,
    disk: SimDisk,
    clock: SimClock,
    workers: Arc<Mutex<Vec<Box<dyn Worker>>>>,
}

impl Node {
    /// With one key.
    fn new() -> Node {
        let (env, disk, clock) = sim::env(1);
        let options = Options {
            background: Background::Manual,
            keep_log_ms: Some(60_000),
            ..Options::new(16 << 20, Durability::Always)
        };
        let engine = Engine::open(env.clone(), Path::new(DIR), options).expect("a new store");
        let mut batch = WriteBatch::new();
        batch.put(b"key", Stamp::new(Version { timestamp: 1, node: 0 }), b"value");
        engine.write_group(&[batch]).expect("a write");
        let turns = Turns::default();
        let workers = Arc::clone(&turns.0);
        let env = Env { workers: Arc::new(turns), ..env };
        let checkpoints = Checkpoints::new(&env, Path::new(DIR), &Arc::new(engine));
        Node { checkpoints, disk, clock, workers }
    }

    fn begin(&self) -> Result<u64, Error> {
        match self.checkpoints.step(BackupStep::Begin)? {
            BackupAnswer::Begun(begun) => Ok(begun.id),
            other => panic!("begun: {other:?}"),
        }
    }

    /// No bytes of it: as who waits for another node says that it is still wanted.
    fn wish(&self, id: u64) -> Result<BackupAnswer, Error> {
        self.checkpoints.step(BackupStep::Read { id, file: "listing".into(), offset: 0, bytes_max: 0 })
    }

    /// Who releases checkpoints takes its turn after so long.
    fn look_after(&self, time: Duration) {
        self.clock.advance(time);
        for worker in &mut *self.workers.lock() {
            assert!(matches!(worker.turn(), Turn::WaitFor(_)), "it goes on");
        }
    }

    /// The tables that checkpoints keep.
    fn kept_tables(&self) -> usize {
        let tables = |slot: usize| self.disk.list(&Path::new(DIR).join(format!("checkpoints/{slot}/tables")));
        (0..4).filter_map(|slot| tables(slot).ok()).map(|names| names.len()).sum()
    }
}

fn is_gone(read: &Result<BackupAnswer, Error>) -> bool {
    matches!(read, Err(Error::NoCheckpoint { .. }))
}

#[test]
fn a_checkpoint_is_released_a_minute_after_it_was_read_last() {
    let node = Node::new();
    let id = node.begin().expect("a checkpoint");
    // For as long as it is read now and then, it is kept.
    for _ in 0..3 {
        node.look_after(LEASE);
        assert!(node.wish(id).is_ok() && node.kept_tables() == 1);
    }
    node.look_after(LEASE);
    assert_eq!(node.kept_tables(), 1, "exactly a minute is not too long");
    node.look_after(Duration::from_nanos(1));
    assert_eq!(node.kept_tables(), 0, "its files are gone");
    assert!(is_gone(&node.wish(id)) && is_gone(&node.checkpoints.step(BackupStep::End { id })));
}

#[test]
fn each_checkpoint_has_a_lease_of_its_own() {
    let node = Node::new();
    let (left, read) = (node.begin().expect("one"), node.begin().expect("another"));
    node.look_after(LEASE);
    assert!(node.wish(read).is_ok());
    node.look_after(Duration::from_secs(1));
    assert!(is_gone(&node.wish(left)), "nobody has read it");
    assert!(node.wish(read).is_ok());
    assert_eq!(node.workers.lock().len(), 1, "one thread for all of them");
}

#[test]
fn who_wants_a_checkpoint_does_not_wait_for_leases_to_be_looked_at() {
    let node = Node::new();
    let first: Vec<u64> = (0..4).map(|_| node.begin().expect("room")).collect();
    assert!(matches!(node.begin(), Err(Error::CheckpointsTaken { .. })), "there are four");
    node.clock.advance(LEASE + Duration::from_nanos(1));
    node.begin().expect("their leases are over");
    assert!(first.iter().all(|&id| is_gone(&node.wish(id))));
    assert_eq!(node.kept_tables(), 1);
}

/// Who had killed four backups was told to send fewer requests at a time.
#[test]
fn who_finds_all_checkpoints_taken_hears_how_long_to_wait() {
    let node = Node::new();
    let ids: Vec<u64> = (0..4).map(|_| node.begin().expect("room")).collect();
    node.clock.advance(Duration::from_millis(17_500));
    for &id in &ids[1..] {
        node.wish(id).expect("it is read");
    }
    let Err(error) = node.begin() else { panic!("there are four") };
    assert!(matches!(error, Error::CheckpointsTaken { wait_s: Some(43), .. }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "over capacity: this node has 4 checkpoints for backups, and no more at a time; wait until another backup ends; if no \
         other backup is running, wait 43 s at most: what an interrupted one left is released after a minute"
    );
    node.clock.advance(Duration::from_secs(43));
    node.begin().expect("that was long enough");
}

/// One made its file while another one replaced it: a backup failed, or named a store that there is not.
#[test]
fn backups_that_come_together_first_hear_one_name() {
    for _ in 0..100 {
        let node = Node::new();
        let start = Barrier::new(4);
        let name = || {
            start.wait();
            node.checkpoints.store().expect("a sound disk")
        };
        let names = thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(name));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        assert_eq!(names, [names[0]; 4]);
    }
}

/// Who fetches a log gives up what is unreadable.
#[test]
fn a_file_is_unreadable_only_if_the_disk_does_not_give_its_bytes() {
    let node = Node::new();
    let (id, log) = (node.begin().expect("a checkpoint"), node.checkpoints.log(0).expect("it keeps its log"));
    let steps = [
        BackupStep::ReadLog {
            file: format!("log/{:06}.wal", log.segments[0].number).into(),
            offset: 0,
            bytes_max: 9,
        },
        BackupStep::Read { id, file: "listing".into(), offset: 0, bytes_max: 9 },
    ];
    for (operation, fault) in [(Operation::Open, Fault::too_many_files()), (Operation::Read, Fault::io())] {
        let is_lack = operation == Operation::Open;
        for step in &steps {
            node.disk.fail_operation(0, fault.clone().on(operation));
            let refused = node.checkpoints.step(step.clone()).expect_err("it is refused");
            match refused {
                Error::Store(StoreError::OverCapacity { .. }) => assert!(is_lack),
                Error::Store(StoreError::Unreadable { .. }) => assert!(!is_lack),
                other => panic!("{other}"),
            }
            assert!(node.checkpoints.step(step.clone()).is_ok());
        }
    }
}

/// It was refused as if the node were over capacity.
#[test]
fn a_file_that_is_gone_is_unreadable() {
    let node = Node::new();
    let id = node.begin().expect("a checkpoint");
    node.checkpoints.step(BackupStep::End { id }).expect("it is released");
    let is_table = |path: &&PathBuf| path.starts_with("/data/tables");
    let table = node.disk.paths().iter().find(is_table).cloned().expect("a table");
    node.disk.remove(&table).expect("a table");
    match node.begin() {
        Err(Error::Store(StoreError::Unreadable { reason })) => {
            assert!(reason.starts_with(&format!("{} is missing", table.display())), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

/// While it links a file, everything that was deleted goes, as if that took minutes.
struct SlowLinks {
    disk: Arc<dyn Disk>,
    engine: OnceLock<Weak<Engine>>,
}

/// Before this, all deletions may go by the time that the links are made.
const LATER: u64 = 100;

impl Disk for SlowLinks {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn File>> {
        self.disk.open(path, mode)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let engine = self.engine.get().and_then(Weak::upgrade).expect("it is open");
        engine.drop_tombstones_before(LATER);
        self.disk.hard_link(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
}

/// It counted as dropped from the checkpoint. So one that took longer than deletions are kept fitted together with none, its own included.
#[test]
fn what_is_dropped_while_a_checkpoint_is_linked_is_not_dropped_from_it() {
    let (env, _, _) = sim::env(1);
    let disk = Arc::new(SlowLinks { disk: Arc::clone(&env.disk), engine: OnceLock::new() });
    let env = Env { disk: Arc::clone(&disk) as Arc<dyn Disk>, ..env };
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, Durability::Always) };
    let engine = Arc::new(Engine::open(env.clone(), Path::new(DIR), options).expect("a new store"));
    assert!(disk.engine.set(Arc::downgrade(&engine)).is_ok());
    let mut batch = WriteBatch::new();
    batch.put(b"key", Stamp::new(Version { timestamp: 1, node: 0 }), b"value");
    engine.write_group(&[batch]).expect("a write");
    engine.drop_tombstones_before(40);
    let env = Env { workers: Arc::new(Turns::default()), ..env };
    let checkpoints = Checkpoints::new(&env, Path::new(DIR), &engine);
    let dropped_before = || match checkpoints.step(BackupStep::Begin) {
        Ok(BackupAnswer::Begun(begun)) => begun.dropped_before,
        other => panic!("begun: {other:?}"),
    };
    assert_eq!(dropped_before(), 40, "so much may be missing in its tables");
    assert_eq!(dropped_before(), LATER, "by then, compactions may have dropped more");
}
