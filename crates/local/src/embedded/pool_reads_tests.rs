use std::path::Path;
use std::time::Duration;

use ladoga_env::{Env, sim};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{Cached, Durability, Options, ReadTier, WriteBatch};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::embedded::Embedded;
use crate::embedded::asked_tests::counter;
use crate::store::{Store, StoreError};

/// How long anything may take before a test calls it lost.
const DEADLINE: Duration = Duration::from_mins(1);
const LONG_VALUES: u64 = 40;
const LONG: usize = 250_000;

fn open(env: &Env) -> Embedded {
    let options = Options::new(16 << 20, Durability::Never);
    Embedded::open(env.clone(), Path::new("/data"), options).expect("a store that opens")
}

/// A store of which nothing is in memory.
fn filled(env: &Env) -> Embedded {
    let store = open(env);
    for n in 0..LONG_VALUES {
        let mut batch = WriteBatch::new();
        batch.put(&n.to_be_bytes(), Stamp::new(Version { timestamp: n + 1, node: 0 }), &vec![7; LONG]);
        store.engine.write_group(&[batch]).expect("room");
    }
    store.close().expect("a store that closes");
    open(env)
}

fn begin(store: &Embedded, n: u64) -> Box<PendingRead> {
    match store.engine.get_cell_cached(&n.to_be_bytes(), ReadTier::Memory).expect("a sound disk") {
        Cached::NeedsDisk(read) => read,
        other => panic!("{n} is in memory: {other:?}"),
    }
}

fn with_reads(test: impl AsyncFnOnce(&Embedded, Rc<PoolReads>)) {
    let (env, _disk, _) = sim::env(1);
    let store = filled(&env);
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let (supervisor, inbox) = (Supervisor::default(), Arc::<Inbox>::default());
        supervisor.spawn_local("inbox", Arc::clone(&inbox).read(|_| unreachable!("nothing is written")));
        let disk = DiskHandle { pool: Arc::clone(&store.pool), inbox };
        test(&store, PoolReads::start(disk, &supervisor)).await;
    });
    store.close().expect("a store that closes");
}

async fn take(answer: Rc<OneShot<Read>>) -> Read {
    tokio::time::timeout(DEADLINE, answer.take()).await.expect("a read that comes to an end")
}

#[test]
fn no_more_is_under_way_than_may_be_in_memory_and_all_of_it_is_read() {
    with_reads(async |store, reads| {
        let answers: Vec<_> = (0..LONG_VALUES).map(|n| reads.go_on(begin(store, n))).collect();
        let (under_way, bytes) = {
            let state = reads.state.borrow();
            (state.under_way.len(), state.under_way_bytes)
        };
        assert_eq!(under_way, READS_BYTES_MAX / BLOCK_BYTES_MAX);
        assert!(bytes <= READS_BYTES_MAX, "{bytes} bytes");
        for answer in answers {
            let cell = take(answer).await.expect("a sound disk").expect("a cell");
            assert!(cell.value.is_some());
        }
        assert_eq!(reads.state.borrow().under_way_bytes, 0);
    });
}

#[test]
fn what_finds_no_place_in_a_queue_is_told_so_and_nothing_else_is() {
    with_reads(async |store, reads| {
        let under_way = READS_BYTES_MAX / BLOCK_BYTES_MAX;
        let most = under_way + WAITING_READS_MAX;
        let pending: Vec<_> = (0..=most as u64).map(|n| begin(store, n % LONG_VALUES)).collect();
        let mut answers: Vec<_> = pending.into_iter().map(|read| reads.go_on(read)).collect();
        let refused = answers.pop().expect("one");
        assert_eq!(counter(store, "ladoga_io_jobs_refused_total"), 1);
        assert!(matches!(take(refused).await, Err(StoreError::OverCapacity { .. })));
        for answer in answers {
            assert!(take(answer).await.expect("a sound disk").is_some());
        }
    });
}

#[test]
fn a_pool_that_takes_nothing_more_is_an_error_and_not_a_wait() {
    with_reads(async |store, reads| {
        store.pool.close();
        let refused = take(reads.go_on(begin(store, 0))).await;
        assert!(matches!(refused, Err(StoreError::OverCapacity { .. })), "{refused:?}");
        assert_eq!(reads.state.borrow().under_way_bytes, 0);
    });
}
