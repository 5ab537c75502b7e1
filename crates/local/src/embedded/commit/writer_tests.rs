use std::path::Path;

use ladoga_env::sim::{self, SimDisk};
use ladoga_model::{Stamp, Value, Version};
use ladoga_storage::{Background, Options};

use super::super::update::Decision;
use super::*;
use crate::store::SupersededCell;

const SOON: Durability = Durability::EverySecond;

#[derive(Default)]
struct Watcher(Mutex<Vec<CellChange>>, Mutex<Vec<SupersededCell>>);

impl CellObserver for Watcher {
    fn begins(&self) {}

    fn replaced(&self, changes: &[CellChange]) {
        self.0.lock().extend_from_slice(changes);
    }

    fn superseded(&self, cells: &[SupersededCell]) {
        self.1.lock().extend_from_slice(cells);
    }

    fn scan_completed(&self) {}
}

fn mark(timestamp: u64) -> CellMark {
    CellMark { stamp: Stamp::new(Version { timestamp, node: 0 }), is_tombstone: false }
}

fn put(timestamp: u64) -> [WriteBatch; 1] {
    let mut batch = WriteBatch::new();
    batch.put(b"key", mark(timestamp).stamp, b"value");
    [batch]
}

#[test]
fn what_is_replaced_is_looked_up_on_the_disk_only_by_who_may_wait() {
    let (env, disk, _clock) = sim::env(1);
    let options =
        Options { background: Background::Manual, ..Options::new(16 << 20, Durability::EverySecond) };
    let open = || Arc::new(Engine::open(env.clone(), Path::new("/data"), options.clone()).expect("a store"));
    let engine = open();
    engine.write_group(&put(1)).expect("a write");
    engine.close().expect("what was written is in a table");
    drop(engine);
    disk.set_cached(false);
    let writer = GroupWriter::new(open());
    let watcher = Arc::<Watcher>::default();
    writer.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>);
    assert_eq!(writer.try_write(&mut put(2), SOON).ok(), Some(None), "memory does not know what it replaces");
    assert!(watcher.0.lock().is_empty(), "nothing was done");
    let group = WriteGroup { batches: put(3).into(), puts: 1, updates: Vec::new() };
    assert_eq!(writer.write(group, SOON).expect("a turn").outcome.ok(), Some(()));
    assert_eq!(writer.try_write(&mut put(4), SOON).ok(), Some(Some(vec![])));
    assert!(watcher.1.lock().is_empty(), "nothing newer was there");
    assert_eq!(writer.try_write(&mut put(2), SOON).ok(), Some(Some(vec![])), "an older one replaces nothing");
    assert_eq!(
        writer.try_write(&mut put(4), SOON).ok(),
        Some(Some(vec![])),
        "what is there already does not either"
    );
    let told: Vec<_> = watcher.0.lock().iter().map(|change| (change.old, change.new)).collect();
    assert_eq!(told, [(Some(mark(1)), mark(3)), (Some(mark(3)), mark(4))]);
    let [version, newest] = [2, 4].map(|timestamp| mark(timestamp).stamp.version);
    assert_eq!(*watcher.1.lock(), [SupersededCell { key_hash: xxh3_64(b"key"), version, newest }]);
}

/// A store whose memtable has room for four values of 14 KiB, and whose groups have room for two.
fn store_for_four() -> (Arc<Engine>, SimDisk) {
    let (env, disk, _clock) = sim::env(1);
    let options = Options {
        background: Background::Manual,
        memtable_bytes: Some(64 << 10),
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, Durability::Always)
    };
    (Arc::new(Engine::open(env, Path::new("/data"), options).expect("a store")), disk)
}

/// Leaves no room on a disk.
fn fill(disk: &SimDisk) {
    let used = disk.paths().into_iter().map(|path| disk.file_len(path).expect("a file")).sum::<u64>();
    disk.set_capacity(used);
}

/// The tree of a node lacked what a group had stored before the disk was full: each comparison with a peer found it to differ,
/// until the node was restarted.
#[test]
fn what_a_group_stored_before_it_failed_is_told() {
    let (engine, disk) = store_for_four();
    let writer = GroupWriter::new(Arc::clone(&engine));
    let watcher = Arc::<Watcher>::default();
    writer.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>);
    let batch = |key: &[u8], timestamps: &[u64]| {
        let mut batch = WriteBatch::new();
        for &timestamp in timestamps {
            batch.put(key, mark(timestamp).stamp, &[7; 14 << 10]);
        }
        batch
    };
    let write = |batches: Vec<WriteBatch>| {
        let group = WriteGroup { puts: batches.len(), batches, updates: Vec::new() };
        writer.write(group, Durability::Always).expect("a turn").outcome
    };
    write(vec![batch(b"front", &[2])]).expect("a write");
    let group =
        vec![batch(b"front", &[3]), batch(b"older", &[1]), batch(b"front", &[4]), batch(b"back", &[5])];
    fill(&disk);
    let error = write(group).expect_err("a full disk");
    assert!(error.is_disk_full(), "{error}");
    let stored = |key| engine.get_cell(key).expect("a read").map(|cell| cell.mark());
    assert_eq!((stored(b"front"), stored(b"older"), stored(b"back")), (Some(mark(3)), Some(mark(1)), None));
    let mut told: HashMap<u64, CellMark> = HashMap::new();
    for change in watcher.0.lock().iter() {
        assert_eq!(told.insert(change.key_hash, change.new), change.old, "each takes the place of the last");
    }
    assert_eq!(told, HashMap::from([(xxh3_64(b"front"), mark(3)), (xxh3_64(b"older"), mark(1))]));
}

/// Who wrote what was stored before the disk was full took it for the newest: a write was acknowledged, and nobody could read it.
#[test]
fn what_met_something_newer_is_told_although_its_group_failed() {
    let (engine, disk) = store_for_four();
    let writer = GroupWriter::new(Arc::clone(&engine));
    let watcher = Arc::<Watcher>::default();
    writer.observe(Arc::clone(&watcher) as Arc<dyn CellObserver>);
    let put = |key: &[u8], timestamp| {
        let mut batch = WriteBatch::new();
        batch.put(key, mark(timestamp).stamp, &[7; 14 << 10]);
        batch
    };
    let mut delete = WriteBatch::new();
    delete.delete(b"front", mark(2).stamp);
    engine.write_group(&[put(b"front", 9)]).expect("a write");
    fill(&disk);
    let batches = vec![put(b"front", 3), put(b"other", 1), put(b"front", 4), put(b"front", 5), delete];
    let written = writer.write(WriteGroup { batches, puts: 4, updates: Vec::new() }, Durability::Always);
    let written = written.expect("a turn");
    assert!(written.outcome.as_ref().is_err_and(Error::is_disk_full));
    assert_eq!((written.puts_stored, written.deletes_stored), (2, 5));
    let met = |timestamp| SupersededCell {
        key_hash: xxh3_64(b"front"),
        version: mark(timestamp).stamp.version,
        newest: mark(9).stamp.version,
    };
    assert_eq!(*watcher.1.lock(), [met(3), met(2)], "each that is stored once, and no other");
}

/// All of it was refused, so that who repeated an increment added twice.
#[test]
fn what_is_stored_before_the_disk_is_full_is_not_refused() {
    const BYTES: usize = 14 << 10;
    let keys = [&b"a"[..], b"b", b"c", b"d"];
    let write = |group: WriteGroup| {
        let (engine, disk) = store_for_four();
        let writer = GroupWriter::new(Arc::clone(&engine));
        let mut first = WriteBatch::new();
        first.put(b"first", mark(1).stamp, &[7; BYTES]);
        engine.write_group(&[first]).expect("room");
        fill(&disk);
        let written = writer.write(group, Durability::Always).expect("a turn");
        assert!(written.outcome.as_ref().is_err_and(Error::is_disk_full));
        let is_stored = |key: &[u8]| engine.get_cell(key).expect("a read").is_some();
        assert_eq!(keys.map(is_stored), [true, true, false, false]);
        written
    };
    let update = |key: &[u8]| {
        let cell = KnownCell { stamp: mark(2).stamp, value: Some(Value::Inline(vec![7; BYTES].into())) };
        Update::new(key, BYTES as u64, |_| Decision::Write(cell))
    };
    let WrittenGroup { verdicts, .. } =
        write(WriteGroup { updates: keys.map(update).into(), ..WriteGroup::default() });
    assert_eq!(verdicts, [Verdict::Stored, Verdict::Stored, Verdict::Bound(3), Verdict::Bound(4)]);

    let put = |key: &[u8]| {
        let mut batch = WriteBatch::new();
        batch.put(key, mark(2).stamp, &[7; BYTES]);
        batch
    };
    let mut batches = Vec::from(keys.map(put));
    let mut delete = WriteBatch::new();
    delete.delete(b"first", mark(2).stamp);
    batches.push(delete);
    let written = write(WriteGroup { batches, puts: 4, updates: Vec::new() });
    assert_eq!((written.puts_stored, written.deletes_stored), (2, 5));
    assert!(written.of_deletes.is_ok());
}

#[test]
fn one_group_is_written_at_a_time() {
    let (env, _disk, _clock) = sim::env(1);
    let engine = Engine::open(env, Path::new("/data"), Options::new(16 << 20, Durability::EverySecond));
    let writer = GroupWriter::new(Arc::new(engine.expect("a store")));
    let turn = writer.turn.lock();
    assert_eq!(writer.try_write(&mut put(1), SOON).ok(), Some(None));
    drop(turn);
    assert_eq!(writer.try_write(&mut put(1), SOON).ok(), Some(Some(vec![])));
}
