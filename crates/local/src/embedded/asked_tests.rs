use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::mpsc::channel;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use ladoga_env::sim::{self, Fault, Operation, PowerCut, SimClock, SimDisk};
use ladoga_env::{Clock, Env, Priority};
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_storage::{Background, Durability};
use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, LocalOptions};

use super::*;
use crate::store::{LocalStore, MetricValue, NewCell, NewestCell, WriteKind};

const WEAK: [Durability; 2] = [Durability::Never, Durability::EverySecond];
/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

/// What the thread that syncs meets when it looks at the clock, which it does with each sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meets {
    Nothing,
    /// It waits until there is nothing.
    AWall,
    APanic,
}

struct Gatekeeper {
    clock: SimClock,
    meets: Mutex<Meets>,
    changed: Condvar,
}

impl Gatekeeper {
    fn set(&self, meets: Meets) {
        *self.meets.lock() = meets;
        self.changed.notify_all();
    }
}

impl Clock for Gatekeeper {
    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        if thread::current().name() == Some("syncer") {
            let mut meets = self.meets.lock();
            assert!(*meets != Meets::APanic, "on purpose");
            while *meets == Meets::AWall {
                self.changed.wait(&mut meets);
            }
        }
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }

    fn lower_thread_priority(&self, _: Priority) {}
}

/// Lets the thread go on at the end, also after a failed assertion: the store waits for it.
struct Release(Arc<Gatekeeper>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.set(Meets::Nothing);
    }
}

/// Its fields are dropped in this order.
struct Opened {
    release: Release,
    store: Arc<Embedded>,
    disk: SimDisk,
}

fn open(durability: Durability) -> Opened {
    let (env, disk, clock) = sim::env(1);
    let clock = Arc::new(Gatekeeper { clock, meets: Mutex::new(Meets::Nothing), changed: Condvar::new() });
    let env = Env { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..env };
    let options = Options { background: Background::Manual, ..Options::new(16 << 20, durability) };
    let store = Embedded::open(env, Path::new("/data"), options).expect("a store that opens");
    Opened { release: Release(clock), store: Arc::new(store), disk }
}

impl Opened {
    /// Runs on an event loop of the store.
    fn on_a_loop<T>(&self, work: impl AsyncFnOnce(Local) -> T) -> T {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.expect("a runtime").block_on(async { work(self.store.attach(&Supervisor::default())).await })
    }

    fn clock(&self) -> &Arc<Gatekeeper> {
        &self.release.0
    }

    fn syncs(&self) -> u64 {
        self.store.engine.statistics().syncs.count()
    }

    /// What is left if nothing is that was not synced: the newest cell of every key, by its timestamp.
    fn after_a_power_cut(self) -> Vec<(String, u64)> {
        let Opened { store, disk, .. } = self;
        disk.power_cut(PowerCut::LoseAll);
        drop(store);
        disk.power_on();
        let (env, ..) = sim::env(2);
        let env = Env { disk: Arc::new(disk), ..env };
        let options = Options { background: Background::Manual, ..Options::new(16 << 20, Durability::Never) };
        let store = Embedded::open(env, Path::new("/data"), options).expect("a store that opens");
        let mut range = store.engine.snapshot().range(b"", None);
        let mut cells = Vec::new();
        while let Some((key, cell)) = range.next_cell().expect("it can be read") {
            cells.push((String::from_utf8_lossy(&key).into_owned(), cell.stamp.version.timestamp));
        }
        cells
    }
}

fn version(timestamp: u64) -> Version {
    Version { timestamp, node: 0 }
}

/// Queued at once.
fn put(local: &Local, key: &[u8], timestamp: u64) -> Applied {
    let value = Some(Value::Inline(&b"value"[..]));
    local.apply([(key, Cell { stamp: Stamp::new(version(timestamp)), value })])
}

/// One version after what is there; answers it.
fn next(newest: Option<NewestCell>) -> (Option<NewCell<Local>>, Version) {
    let next = version(newest.map_or(0, |newest| newest.stamp.version.timestamp) + 1);
    let value = Some(Value::Inline(Bytes::from_static(b"value")));
    (Some(Cell { stamp: Stamp::new(next), value }), next)
}

async fn is_there(local: &Local, key: &[u8]) -> bool {
    local.get_cell(key).wait().await.expect("it can be read").is_some()
}

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, work).await.expect("an end")
}

fn is_pending<T>(work: &mut Pin<&mut impl Future<Output = T>>) -> bool {
    work.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

#[test]
fn what_asks_waits_for_a_sync_and_what_does_not_waits_for_nothing() {
    for durability in WEAK {
        let opened = open(durability);
        opened.clock().set(Meets::AWall);
        opened.on_a_loop(async |local| {
            let asking = local.with_durability(Durability::Always);
            let mut asked = pin!(put(&asking, b"asked", 1));
            let mut added = pin!(asking.update(b"added", 5, next));
            // In the same turn, and so in groups beside it.
            in_time(put(&local, b"plain", 1)).await.expect("a write");
            for timestamp in 2..50 {
                in_time(put(&local, b"plain", timestamp)).await.expect("a write");
                in_time(local.update(b"plain too", 5, next)).await.expect("an update");
                let weaker = local.with_durability(Durability::Never);
                in_time(put(&weaker, b"weaker", timestamp)).await.expect("a write");
            }
            // Too large for the event loop, so the committer has it.
            let long = vec![7; 100 << 10];
            let cell = Cell { stamp: Stamp::new(version(1)), value: Some(Value::Inline(&long[..])) };
            in_time(local.apply([(&b"long"[..], cell)])).await.expect("a write");
            assert!(is_there(&local, b"asked").await && is_there(&local, b"added").await, "it is visible");
            assert!(is_pending(&mut asked) && is_pending(&mut added), "it is not on disk");
            let behind: Vec<_> = (2..40).map(|timestamp| put(&asking, b"asked", timestamp)).collect();
            in_time(put(&local, b"plain", 50)).await.expect("a write");
            assert_eq!(opened.syncs(), 0, "{durability:?}");
            opened.clock().set(Meets::Nothing);
            in_time(asked).await.expect("it is on disk");
            assert_eq!(in_time(added).await, Ok(version(1)));
            for one in behind {
                in_time(one).await.expect("it is on disk");
            }
        });
        assert!((1..=3).contains(&opened.syncs()), "{} syncs, {durability:?}", opened.syncs());
        let left = opened.after_a_power_cut();
        assert!(left.contains(&("asked".to_owned(), 39)), "{left:?}");
    }
}

#[test]
fn a_failed_sync_is_answered_as_a_failure_and_nothing_is_written_after_it() {
    for durability in WEAK {
        let opened = open(durability);
        opened.on_a_loop(async |local| {
            let asking = local.with_durability(Durability::Always);
            in_time(put(&asking, b"before", 1)).await.expect("a write");
            opened.disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("wal"));
            let (asked, added) = (put(&asking, b"asked", 1), asking.update(b"added", 5, next));
            let is_failed = |error: StoreError| matches!(error, StoreError::Failed { .. });
            assert!(in_time(asked).await.is_err_and(is_failed));
            assert!(in_time(added).await.is_err_and(is_failed));
            for local in [&local, &asking] {
                assert!(in_time(put(local, b"behind", 1)).await.is_err_and(is_failed));
                assert!(in_time(local.update(b"behind", 5, next)).await.is_err_and(is_failed));
                assert!(local.admit(WriteKind::Put, 5).is_err_and(is_failed));
            }
        });
        assert!(opened.store.failure().is_some());
        assert!(opened.store.close().is_err());
    }
}

#[test]
fn after_a_panic_of_the_sync_nobody_is_told_of_success() {
    for durability in WEAK {
        let opened = open(durability);
        opened.clock().set(Meets::APanic);
        opened.on_a_loop(async |local| {
            let asking = local.with_durability(Durability::Always);
            let is_told = |error: StoreError| error.to_string().contains("panicked");
            assert!(in_time(put(&asking, b"asked", 1)).await.is_err_and(is_told));
            assert!(local.admit(WriteKind::Put, 5).is_err_and(is_told));
        });
        assert!(opened.store.close().is_err());
    }
}

#[test]
fn the_end_of_a_store_waits_for_the_sync_of_what_asked() {
    let opened = open(Durability::Never);
    opened.clock().set(Meets::AWall);
    let (store, clock) = (Arc::clone(&opened.store), Arc::clone(opened.clock()));
    let closed = opened.on_a_loop(async |local| {
        let asked = put(&local.with_durability(Durability::Always), b"asked", 1);
        in_time(put(&local, b"plain", 1)).await.expect("a write, and so the one before it");
        let (done, when_done) = channel();
        thread::spawn(move || done.send(store.close()));
        clock.set(Meets::Nothing);
        in_time(asked).await.expect("it is on disk");
        when_done.recv_timeout(DEADLINE).expect("an end")
    });
    assert_eq!(closed, Ok(()));
}

/// A node that lost what it acknowledged is rebuilt: no client may bring that about.
#[test]
fn a_replica_makes_no_write_less_durable_than_it_was_told_to() {
    let (env, _disk, _clock) = sim::env(1);
    for (told, expected) in [
        (Durability::Always, [Durability::Always; 3]),
        (Durability::EverySecond, [Durability::EverySecond, Durability::EverySecond, Durability::Always]),
        (Durability::Never, Durability::ALL),
    ] {
        let options = Options { background: Background::Manual, ..Options::new(16 << 20, told) };
        let store = Embedded::open_replica(env.clone(), Path::new("/data"), options).expect("a store");
        let shared = store.queue.shared();
        assert_eq!(Durability::ALL.map(|asked| shared.durability(Some(asked))), expected, "{told:?}");
        assert_eq!(shared.durability(None), told);
        store.close().expect("a store that closes");
    }
}

#[test]
fn what_asks_for_less_than_the_store_does_is_not_synced() {
    let opened = open(Durability::Always);
    opened.on_a_loop(async |local| {
        for (timestamp, durability) in [(1, Durability::Never), (2, Durability::EverySecond)] {
            let asking = local.with_durability(durability);
            in_time(put(&asking, b"less", timestamp)).await.expect("a write");
            in_time(asking.update(b"less too", 5, next)).await.expect("an update");
        }
        assert_eq!(opened.syncs(), 0);
        // All in one turn: one sync, and only for what it is asked for.
        let less = put(&local.with_durability(Durability::Never), b"less", 3);
        let by_default =
            [put(&local, b"default", 1), put(&local.with_durability(Durability::Always), b"all", 1)];
        in_time(less).await.expect("a write");
        for one in by_default {
            in_time(one).await.expect("a write");
        }
        assert!((1..=2).contains(&opened.syncs()), "{} syncs", opened.syncs());
        in_time(put(&local.with_durability(Durability::Never), b"lost", 1)).await.expect("a write");
    });
    let left = opened.after_a_power_cut();
    let names: Vec<_> = left.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(names, ["all", "default", "less", "less too"]);
}

#[test]
fn syncs_that_were_asked_for_are_counted() {
    let opened = open(Durability::EverySecond);
    opened.on_a_loop(async |local| {
        for durability in [Durability::Always, Durability::Never, Durability::Always] {
            in_time(put(&local.with_durability(durability), b"key", 1)).await.expect("a write");
        }
        in_time(put(&local, b"key", 2)).await.expect("a write");
    });
    assert_eq!(counter(&opened.store, "ladoga_commit_requested_syncs_total"), 2);
    opened.store.close().expect("a store that closes");
}

/// The value of a counter that has no labels.
pub(super) fn counter(store: &Embedded, name: &str) -> u64 {
    let metrics = store.metrics();
    let metric = metrics.iter().find(|metric| metric.name == name).expect("a metric");
    let MetricValue::Number(value) = metric.series[0].value else { panic!("{name} is no number") };
    value as u64
}

/// Groups that the event loop committed itself.
fn inline_groups(store: &Embedded) -> u64 {
    counter(store, "ladoga_commit_inline_groups_total")
}

/// Three at once, round by round; answers those that were acknowledged, until one is not.
async fn rounds_of_three(local: &Local, rounds: u64) -> Vec<(String, u64)> {
    let mut acknowledged = Vec::new();
    for round in 1..=rounds {
        let writes = ["a", "b", "c"].map(|key| (key, put(local, key.as_bytes(), round)));
        for (key, written) in writes {
            if in_time(written).await.is_ok() {
                acknowledged.push((key.to_owned(), round));
            }
        }
    }
    acknowledged
}

#[test]
fn who_writes_at_the_same_time_shares_a_sync_on_the_loop_while_nobody_reads() {
    let opened = open(Durability::Always);
    opened.on_a_loop(async |local| {
        rounds_of_three(&local, 4).await;
        let (by_the_committer, syncs) = (inline_groups(&opened.store), opened.syncs());
        rounds_of_three(&local, 10).await;
        let on_the_loop = inline_groups(&opened.store);
        // The committer looks once more before it waits, and may find some, or a part of a round.
        let syncs = opened.syncs() - syncs;
        assert!(by_the_committer == 0 && (10..=14).contains(&syncs), "{syncs} syncs for 30 writes");
        assert!(on_the_loop > 5, "of 10 rounds, {on_the_loop} on the loop");
        assert!(is_there(&local, b"a").await);
        rounds_of_three(&local, 4).await;
        assert_eq!(inline_groups(&opened.store) - on_the_loop, 0, "a sync would keep who reads waiting");
    });
}

#[test]
fn what_was_acknowledged_on_the_loop_survives_a_power_cut_at_every_sync() {
    const ROUNDS: u64 = 9;
    for cut in 0.. {
        let opened = open(Durability::Always);
        opened.disk.cut_power_at_sync(cut, PowerCut::LoseAll);
        let acknowledged = opened.on_a_loop(async |local| rounds_of_three(&local, ROUNDS).await);
        let is_cut = !opened.disk.is_powered();
        assert_eq!(is_cut, acknowledged.len() < 3 * ROUNDS as usize, "cut at {cut}: {acknowledged:?}");
        if !is_cut {
            assert!(cut >= ROUNDS, "each round has a sync");
            return;
        }
        let left = opened.after_a_power_cut();
        for (key, round) in &acknowledged {
            let newest = left.iter().find(|(found, _)| found == key).map_or(0, |(_, newest)| *newest);
            assert!(newest >= *round, "cut at {cut}: {key} is at {newest}, {round} was acknowledged");
        }
    }
}
