use std::cell::Cell;
use std::path::Path;

use ladoga_env::{Env, sim};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Durability, Options, WriteBatch};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
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
