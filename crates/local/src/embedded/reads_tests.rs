use std::cell::Cell;
use std::path::Path;

use ladoga_env::{Env, sim};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Cached, Durability, Options, ReadTier, WriteBatch};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::embedded::asked_tests::counter;
use crate::embedded::commit::Inbox;
use crate::embedded::pool::DiskHandle;
use crate::embedded::{Embedded, Local};
use crate::store::{Later, LocalStore, Lookup, Store, StoreError, StoredCell};

const KEYS: u64 = 1_000;
/// How long anything may take before the test calls it lost.
const DEADLINE: Duration = Duration::from_mins(1);

thread_local! {
    /// How many reads go on before one of them panics.
    static PANICS_AFTER: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Called when a read goes on.
pub(super) fn panic_if_due() {
    let left = PANICS_AFTER.take();
    assert!(left != Some(0), "on purpose");
    PANICS_AFTER.set(left.map(|left| left - 1));
}

fn open(env: &Env) -> Arc<Embedded> {
    // All of it in one table.
    let options =
        Options { first_segment_bytes: Some(u64::MAX), ..Options::new(16 << 20, Durability::Never) };
    Arc::new(Embedded::open(env.clone(), Path::new("/data"), options).expect("a store that opens"))
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A store whose cells are in a table of which nothing is cached.
fn filled(env: &Env) -> Arc<Embedded> {
    let store = open(env);
    for n in 0..KEYS {
        let mut batch = WriteBatch::new();
        let version = Version { timestamp: n + 1, node: 0 };
        batch.put(&key(n), Stamp::new(version), &[7; 1_000]);
        store.engine.write_group(&[batch]).expect("room");
    }
    store.close().expect("a store that closes");
    open(env)
}

/// Begins a read that takes the disk.
fn begin(local: &Local, n: u64) -> Later<Result<Option<StoredCell>, StoreError>> {
    match local.get_cell(&key(n)) {
        Lookup::Later(found) => found,
        Lookup::Now(_) => panic!("the cell {n} is in memory"),
    }
}

async fn has(found: Later<Result<Option<StoredCell>, StoreError>>) -> bool {
    let found = tokio::time::timeout(DEADLINE, found).await.expect("a read that comes to an end");
    found.expect("a cell that can be read").is_some()
}

#[test]
fn a_panic_fails_the_read_that_it_comes_of_and_no_other() {
    let (env, _disk, _) = sim::env(1);
    let store = filled(&env);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = store.attach(&Supervisor::default());
        assert!(local.reads.is_some(), "a loop without a ring");
        // Brings the index into memory.
        assert!(has(begin(&local, 0)).await);
        PANICS_AFTER.set(Some(1));
        let reads = [KEYS / 4, KEYS / 2, KEYS * 3 / 4].map(|n| begin(&local, n));
        let mut failed = Vec::new();
        for read in reads {
            match tokio::time::timeout(DEADLINE, read).await.expect("a read that comes to an end") {
                Ok(found) => assert!(found.is_some()),
                Err(error) => failed.push(error),
            }
        }
        assert_eq!(failed, [panicked()]);
        assert_eq!(PANICS_AFTER.get(), None, "it went off");
        assert!(has(begin(&local, KEYS / 8)).await, "the ring goes on");
    });
    store.close().expect("a store that closes");
}

/// A ring that reads nothing.
#[derive(Clone, Copy, PartialEq)]
enum Broken {
    /// The system lets nobody enter it.
    Closed,
    /// It takes reads, and does none of them.
    Busy,
}

struct BrokenRing(Broken, Vec<u64>);

impl ReadRing for BrokenRing {
    fn push(&mut self, token: u64, _: FilePart) {
        self.1.push(token);
    }

    fn turn(&mut self, ended: &mut Vec<EndedRead>) -> io::Result<()> {
        if self.0 == Broken::Closed {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let end = |token| EndedRead { token, bytes: Err(io::ErrorKind::WouldBlock.into()) };
        ended.extend(self.1.drain(..).map(end));
        Ok(())
    }

    fn descriptor(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// Reads some keys by a ring that reads nothing. Answers how many event loops have a ring then.
fn read_by(broken: Broken) -> u64 {
    let (env, _disk, _) = sim::env(1);
    let store = filled(&env);
    let counters = Arc::<ReadCounters>::default();
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let (supervisor, inbox) = (Supervisor::default(), Arc::<Inbox>::default());
        supervisor.spawn_local("inbox", Arc::clone(&inbox).read(|_| unreachable!("nothing is written")));
        let on_pool = PoolReads::start(DiskHandle { pool: Arc::clone(&store.pool), inbox }, &supervisor);
        let begin = |n| match store.engine.get_cell_cached(&key(n), ReadTier::Memory).expect("a disk") {
            Cached::NeedsDisk(read) => read,
            other => panic!("{n} is in memory: {other:?}"),
        };
        let take = async |answer: Rc<OneShot<Read>>| {
            tokio::time::timeout(DEADLINE, answer.take()).await.expect("a read that comes to an end")
        };
        // Brings the index into memory, as that is read by threads in any case.
        assert!(matches!(take(on_pool.go_on(begin(0))).await, Ok(Some(_))));
        let ring = Box::new(BrokenRing(broken, Vec::new()));
        let reads = Reads::start(ring, on_pool, Arc::clone(&counters), &supervisor).expect("a ring");
        let answers: Vec<_> = (0..10).map(|n| reads.go_on(begin(100 + n * 50))).collect();
        for answer in answers {
            assert!(matches!(take(answer).await, Ok(Some(_))));
        }
        assert!(matches!(take(reads.go_on(begin(900))).await, Ok(Some(_))));
    });
    assert_eq!(counter(&store, "ladoga_corrupt_reads_total"), 0);
    assert_eq!(counters.waiting.load(Ordering::Relaxed), 0);
    store.close().expect("a store that closes");
    counters.rings.load(Ordering::Relaxed)
}

/// They waited for ever, with a line in the log every 10 ms.
#[test]
fn threads_read_if_the_ring_can_be_made_and_not_be_used() {
    assert_eq!(read_by(Broken::Closed), 0);
}

/// It was a damaged table, and `500`.
#[test]
fn threads_do_a_read_that_only_the_ring_could_not_do() {
    assert_eq!(read_by(Broken::Busy), 1);
}
