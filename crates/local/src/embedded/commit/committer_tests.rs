use std::future::Future;
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use ladoga_env::sim;
use ladoga_model::{Cell, Stamp, Value, Version};
use ladoga_storage::{BLOB_BYTES_MIN, Background, Durability, Engine, MEMORY_BYTES_MIN, Options};
use parking_lot::Mutex;
use tokio::runtime::{Builder, LocalOptions};

use super::super::{Applied, Decision, Inbox, InlineCommitter, Update, Waiters};
use super::*;
use crate::admission::Admission;
use crate::embedded::Embedded;
use crate::lone_versions::LoneVersions;
use crate::store::{
    CellChange, CellGate, CellObserver, LocalStore, Store, StoreError, SupersededCell, WriteKind,
};
use crate::versions::VersionClock;
use ladoga_runtime::Supervisor;

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

/// An observer that panics when it is notified of a write.
struct Panics {
    whole: SyncSender<()>,
    /// Where the first scan waits at its end.
    goes_on: Mutex<Option<Receiver<()>>>,
}

impl CellObserver for Panics {
    fn begins(&self) {}

    fn replaced(&self, _: &[CellChange]) {
        assert!(thread::current().name() == Some("scan"), "on purpose");
    }

    fn superseded(&self, _: &[SupersededCell]) {}

    fn scan_completed(&self) {
        self.whole.send(()).expect("a test that waits");
        if let Some(goes_on) = self.goes_on.lock().take() {
            goes_on.recv().expect("a test that lets it go on");
        }
    }
}

/// Fails if the work takes too long, so that a deadlock is a failed test and not one that never ends.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, when_done) = channel();
    thread::spawn(move || done.send(work()));
    when_done.recv_timeout(DEADLINE).expect("an end")
}

/// The write was never answered, and the thread that scans waited for a snapshot for ever, and the end of the node for it.
#[test]
fn after_a_panic_writes_are_refused_and_the_end_is_reached() {
    // The committer panics, or the event loop that writes itself.
    for durability in [Durability::Always, Durability::Never] {
        panic_once(durability);
    }
}

/// All that a peer sends in one turn is applied at once. With little memory that was more than the largest group of the engine:
/// the node reported a failed disk, and the peer sent the same again, for ever.
#[test]
fn what_is_applied_at_once_is_stored_however_much_it_is() {
    for durability in [Durability::Always, Durability::Never] {
        let (env, _disk, _clock) = sim::env(1);
        let options = Options::new(MEMORY_BYTES_MIN, durability);
        let store = Embedded::open_replica(env, Path::new("/data"), options).expect("a store that opens");
        let store = Arc::new(store);
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        runtime.expect("a runtime").block_on(async {
            let local = store.attach(&Supervisor::default());
            let value = vec![7; BLOB_BYTES_MIN as usize - 1];
            let keys = [&b"a"[..], b"b", b"c"];
            let stamp = Stamp::new(Version { timestamp: 1, node: 0 });
            let cells = keys.map(|key| (key, Cell { stamp, value: Some(Value::Inline(&value[..])) }));
            let applied = tokio::time::timeout(DEADLINE, local.apply(cells)).await.expect("an answer");
            assert_eq!(applied, Ok(None));
            for key in keys {
                let found = local.get_cell(key).wait().await.expect("it can be read").expect("it is there");
                assert!(matches!(found.value, Some(Value::Inline(stored)) if stored == value));
            }
        });
        in_time(move || store.close()).expect("a store that closes");
    }
}

/// Of two writes of one connection, the committer had the first and waited for its turn, and the event loop wrote the second. If an
/// update came between them the first one got a newer version, and won.
#[test]
fn an_event_loop_writes_nothing_before_what_the_committer_has_of_it() {
    let (env, _disk, clock) = sim::env(1);
    let clock: Arc<dyn Clock> = Arc::new(clock);
    let engine = Engine::open(env, Path::new("/data"), Options::new(16 << 20, Durability::Never));
    let engine = Arc::new(engine.expect("a store"));
    let shared = Arc::new(CommitShared::new(Arc::clone(&engine), 16 << 20, false));
    let versions = Arc::new(LoneVersions::new(VersionClock::new(Arc::clone(&clock))));
    shared.writer().gate(Arc::clone(&versions) as Arc<dyn CellGate>);
    let (write_queue, waiters) = (shared.add_write_queue(Arc::default()), Rc::<Waiters>::default());
    let mut committer = Committer::new(Arc::clone(&shared), Arc::clone(&clock));
    let inline = InlineCommitter::new(clock, shared, Arc::clone(&write_queue), Rc::clone(&waiters));
    let put = |value: &'static [u8]| {
        let cell = Cell { stamp: versions.stamp(), value: Some(Value::Inline(value)) };
        write_queue.push((WriteKind::Put, Durability::Never), [(&b"key"[..], cell)], waiters.enter());
    };
    put(b"first");
    committer.collect(Durability::Never);
    versions.stamp_of_update(b"key").expect("it takes updates")();
    put(b"second");
    assert!(!inline.commit_all_of(Durability::Never), "it comes after the first");
    committer.commit(Durability::Never);
    assert!(inline.commit_all_of(Durability::Never));
    let found = engine.get_cell(b"key").expect("a read").and_then(|cell| cell.value);
    assert!(matches!(found, Some(Value::Inline(value)) if value == b"second"[..]));
}

/// It was refused with what came behind it: who repeated an increment added twice.
#[test]
fn who_is_stored_before_the_disk_is_full_is_told_so() {
    for updates in [false, true] {
        let (env, disk, clock) = sim::env(1);
        let options = Options {
            background: Background::Manual,
            memtable_bytes: Some(64 << 10),
            reserve_bytes: Some(0),
            ..Options::new(16 << 20, Durability::Always)
        };
        let engine = Arc::new(Engine::open(env, Path::new("/data"), options).expect("a store"));
        let shared = Arc::new(CommitShared::new(engine, 16 << 20, false));
        let inbox = Arc::<Inbox>::default();
        let (write_queue, waiters) = (shared.add_write_queue(Arc::clone(&inbox)), Rc::<Waiters>::default());
        let mut committer = Committer::new(shared, Arc::new(clock));
        let mut write = |keys: &[&'static [u8]]| {
            let push = |&key: &&'static [u8]| {
                let (stamp, value) = (Stamp::new(Version { timestamp: 1, node: 0 }), vec![7; 14 << 10]);
                let index = waiters.enter();
                if updates {
                    let cell = Cell { stamp, value: Some(Value::Inline(value.into())) };
                    let update = Update::new(key, 14 << 10, |_| Decision::Write(cell));
                    write_queue.push_update(update, Durability::Always, index);
                } else {
                    let cells = [(key, Cell { stamp, value: Some(Value::Inline(&value[..])) })];
                    write_queue.push((WriteKind::Put, Durability::Always), cells, index);
                }
                Applied::waiting(Rc::clone(&waiters), index)
            };
            let applied: Vec<Applied> = keys.iter().map(push).collect();
            committer.collect(Durability::Always);
            committer.commit(Durability::Always);
            let mut context = Context::from_waker(Waker::noop());
            let receive = |result| waiters.receive(&write_queue, result);
            assert!(pin!(Arc::clone(&inbox).read(receive)).poll(&mut context).is_pending());
            let outcomes =
                applied.into_iter().map(|mut applied| match Pin::new(&mut applied).poll(&mut context) {
                    Poll::Ready(outcome) => outcome.is_ok(),
                    Poll::Pending => panic!("it is committed"),
                });
            outcomes.collect::<Vec<bool>>()
        };
        assert_eq!(write(&[b"first"]), [true]);
        disk.set_capacity(
            disk.paths().into_iter().map(|path| disk.file_len(path).expect("a file")).sum::<u64>(),
        );
        assert_eq!(write(&[b"a", b"b", b"c", b"d"]), [true, true, false, false]);
    }
}

fn panic_once(durability: Durability) {
    let (env, _disk, _clock) = sim::env(1);
    let options = Options::new(16 << 20, durability);
    let store = Embedded::open_replica(env, Path::new("/data"), options).expect("a store that opens");
    let store = Arc::new(store);
    let ((whole, is_whole), (go_on, goes_on)) = (sync_channel(1), sync_channel(1));
    store.observe(Arc::new(Panics { whole, goes_on: Mutex::new(Some(goes_on)) })).expect("a thread");
    is_whole.recv_timeout(DEADLINE).expect("a scan");
    assert_eq!(store.failure(), None);
    // The next scan begins after the last commit.
    store.tell_again();
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    runtime.expect("a runtime").block_on(async {
        let local = store.attach(&Supervisor::default());
        for timestamp in 1..4 {
            let stamp = Stamp::new(Version { timestamp, node: 0 });
            let applied =
                local.apply([(&b"key"[..], Cell { stamp, value: Some(Value::Inline(&b"value"[..])) })]);
            let applied = tokio::time::timeout(DEADLINE, applied).await.expect("an answer");
            assert!(
                matches!(&applied, Err(StoreError::Failed { reason }) if reason.contains("panicked")),
                "{applied:?}"
            );
        }
        assert_eq!(local.admit(WriteKind::Delete, 0), Err(panicked()));
    });
    assert!(store.failure().is_some_and(|reason| reason.contains("panicked")));
    go_on.send(()).expect("a scan that waits");
    assert_eq!(in_time(move || store.close()), Err(panicked()));
}
