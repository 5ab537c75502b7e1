use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::thread::{self, ThreadId};

use ladoga_env::{Clock, Env, sim};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Durability, Options, WriteBatch};
use parking_lot::Mutex;
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::embedded::{Embedded, Local};
use crate::store::{LocalStore, Lookup, Store, StoredCell};

const KEYS: u64 = 1_000;
/// How long anything may take before the test calls it lost.
const DEADLINE: Duration = Duration::from_mins(1);

/// A clock that panics when it is asked on a certain thread.
struct Panics {
    clock: Arc<dyn Clock>,
    is_armed: AtomicBool,
    on: Mutex<Option<ThreadId>>,
}

impl Clock for Panics {
    fn wall_ms(&self) -> u64 {
        let is_there = *self.on.lock() == Some(thread::current().id());
        assert!(!is_there || !self.is_armed.load(Ordering::Acquire), "on purpose");
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

fn open(env: &Env) -> Arc<Embedded> {
    let options = Options::new(16 << 20, Durability::Never);
    Arc::new(Embedded::open(env.clone(), Path::new("/data"), options).expect("a store that opens"))
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// A store whose cells are in a table that nobody has read. The one in the middle will expire, and the clock is asked
/// whether it has.
fn filled(env: &Env) -> Arc<Embedded> {
    let store = open(env);
    for n in 0..KEYS {
        let mut batch = WriteBatch::new();
        let expires_at_ms = if n == KEYS / 2 { u64::MAX } else { 0 };
        let version = Version { timestamp: n + 1, node: 0 };
        batch.put(&key(n), Stamp { expires_at_ms, ..Stamp::new(version) }, &[7; 1_000]);
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
    let panics = Arc::new(Panics {
        clock: Arc::clone(&env.clock),
        is_armed: AtomicBool::new(false),
        on: Mutex::new(None),
    });
    let env = Env { clock: Arc::clone(&panics) as Arc<dyn Clock>, ..env };
    let store = filled(&env);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = store.attach(&Supervisor::default());
        assert!(local.reads.is_some(), "a loop without a ring");
        // Brings the index into memory.
        assert!(has(begin(&local, 0)).await);
        *panics.on.lock() = Some(thread::current().id());
        panics.is_armed.store(true, Ordering::Release);
        let reads = [KEYS / 4, KEYS / 2, KEYS * 3 / 4].map(|n| begin(&local, n));
        let [before, fails, after] = reads;
        let failed = tokio::time::timeout(DEADLINE, fails).await.expect("a read that comes to an end");
        assert_eq!(failed.err(), Some(panicked()));
        assert!(has(before).await && has(after).await);
        panics.is_armed.store(false, Ordering::Release);
        assert!(has(begin(&local, KEYS / 8)).await, "the ring goes on");
    });
    store.close().expect("a store that closes");
}
