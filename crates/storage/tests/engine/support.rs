//! A store on a simulated disk, and the model that it is compared with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ladoga_env::sim::{self, SimClock, SimDisk};
use ladoga_env::{Clock, Env};
use ladoga_model::{Stamp, Version};
use ladoga_storage::{
    Background, Cell as StoredCell, Durability, Engine, Error, Options, Range, RangeStep, Side, Value,
    WriteBatch, check, read_value,
};

/// Small enough that a few dozen writes fill memtables, tables and levels.
pub(crate) fn tiny_options(durability: Durability) -> Options {
    Options {
        background: Background::Manual,
        memtable_bytes: Some(8 << 10),
        first_segment_bytes: Some(4 << 10),
        table_bytes: Some(4 << 10),
        level_1_bytes: Some(8 << 10),
        reserve_bytes: Some(0),
        ..Options::new(16 << 20, durability)
    }
}

/// A machine: its disk, its clock, and the directory of the store.
pub(crate) struct Machine {
    env: Env,
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
}

impl Machine {
    pub(crate) fn new(seed: u64, options: Options) -> Machine {
        let (env, disk, clock) = sim::env(seed);
        Machine { env, disk, clock, dir: PathBuf::from("/data"), options }
    }

    /// What one process sees: its handle on the disk dies with it.
    pub(crate) fn env(&self) -> Env {
        Env { disk: Arc::new(self.disk.attached()), ..self.env.clone() }
    }

    pub(crate) fn open(&self) -> Result<Engine, Error> {
        self.open_dir(&self.dir)
    }

    pub(crate) fn open_dir(&self, dir: &Path) -> Result<Engine, Error> {
        Engine::open(self.env(), dir, self.options.clone())
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    /// Verifies the directory, which no engine has open. One in which no store was made yet is sound.
    pub(crate) fn assert_sound(&self, context: &str) {
        if self.disk.file_len(self.dir.join("CURRENT")).is_err() {
            return;
        }
        let report = check(&self.env(), &self.dir, &mut |_| {}).unwrap_or_else(|error| {
            panic!("{context}: the check could not begin: {error}");
        });
        assert!(report.errors.is_empty(), "{context}: {:#?}", report.errors);
    }
}

/// Does background work until there is none.
pub(crate) fn settle(engine: &Engine) -> Result<(), Error> {
    for _ in 0..10_000 {
        if !engine.step()? {
            return Ok(());
        }
    }
    panic!("background work never ends: {:#?}", engine.statistics());
}

pub(crate) fn version(timestamp: u64) -> Version {
    Version { timestamp, node: (timestamp % 3) as u16 }
}

/// Bytes from which the writer can be told.
pub(crate) fn filled(tag: u64, len: usize) -> Vec<u8> {
    let mut state = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// What a write does to a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Put { len: usize, expires_at_ms: u64 },
    PutBlob { len: usize, expires_at_ms: u64 },
    Delete,
}

/// One cell to be written; its value is made from its timestamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) key: Vec<u8>,
    pub(crate) timestamp: u64,
    pub(crate) change: Change,
}

impl Write {
    pub(crate) fn put(key: impl Into<Vec<u8>>, timestamp: u64, len: usize) -> Write {
        Write { key: key.into(), timestamp, change: Change::Put { len, expires_at_ms: 0 } }
    }

    pub(crate) fn blob(key: impl Into<Vec<u8>>, timestamp: u64, len: usize) -> Write {
        Write { key: key.into(), timestamp, change: Change::PutBlob { len, expires_at_ms: 0 } }
    }

    pub(crate) fn delete(key: impl Into<Vec<u8>>, timestamp: u64) -> Write {
        Write { key: key.into(), timestamp, change: Change::Delete }
    }

    pub(crate) fn stamp(&self) -> Stamp {
        let expires_at_ms = match self.change {
            Change::Put { expires_at_ms, .. } | Change::PutBlob { expires_at_ms, .. } => expires_at_ms,
            Change::Delete => 0,
        };
        Stamp { version: version(self.timestamp), expires_at_ms, copies: (self.timestamp % 4) as u8 }
    }

    fn value(&self) -> Option<Vec<u8>> {
        match self.change {
            Change::Put { len, .. } | Change::PutBlob { len, .. } => Some(filled(self.timestamp, len)),
            Change::Delete => None,
        }
    }
}

/// The writes as a batch; large values go to their files first.
pub(crate) fn batch(engine: &Engine, writes: &[Write]) -> Result<WriteBatch, Error> {
    let mut batch = WriteBatch::new();
    for write in writes {
        match (&write.change, write.value()) {
            (Change::PutBlob { .. }, Some(value)) => {
                let mut writer = engine.create_blob()?;
                writer.write(&value)?;
                batch.put_blob(&write.key, write.stamp(), writer.finish()?);
            }
            (_, Some(value)) => batch.put(&write.key, write.stamp(), &value),
            (_, None) => batch.delete(&write.key, write.stamp()),
        }
    }
    Ok(batch)
}

/// Half of the writes are first tried as a caller writes that must not wait.
pub(crate) fn write(engine: &Engine, writes: &[Write]) -> Result<(), Error> {
    let batch = batch(engine, writes)?;
    let is_tried = writes.first().is_some_and(|write| write.timestamp % 2 == 0);
    if is_tried && engine.try_write_group(std::slice::from_ref(&batch))? {
        return Ok(());
    }
    engine.write_group(&[batch])
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Cell {
    stamp: Stamp,
    value: Option<Vec<u8>>,
}

/// What a store should hold: the newest cell of each key, deleted ones included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    cells: BTreeMap<Vec<u8>, Cell>,
}

pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

impl Model {
    pub(crate) fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            self.put(&write.key, Cell { stamp: write.stamp(), value: write.value() });
        }
    }

    pub(crate) fn with(&self, writes: &[Write]) -> Model {
        let mut model = self.clone();
        model.apply(writes);
        model
    }

    /// The newer cells of both.
    pub(crate) fn and(&self, other: &Model) -> Model {
        let mut both = self.clone();
        for (key, cell) in &other.cells {
            both.put(key, cell.clone());
        }
        both
    }

    fn put(&mut self, key: &[u8], cell: Cell) {
        match self.cells.get_mut(key) {
            Some(newer) if newer.stamp.version >= cell.stamp.version => {}
            Some(older) => *older = cell,
            None => drop(self.cells.insert(key.to_vec(), cell)),
        }
    }

    pub(crate) fn get(&self, key: &[u8], now_ms: u64) -> Option<&[u8]> {
        let cell = self.cells.get(key)?;
        cell.value.as_deref().filter(|_| !cell.stamp.is_expired(now_ms))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.cells.keys()
    }

    pub(crate) fn range(&self, start: &[u8], end: Option<&[u8]>, now_ms: u64) -> Pairs {
        let inside = |key: &[u8]| start <= key && end.is_none_or(|end| key < end);
        let keys = self.cells.keys().filter(|key| inside(key));
        keys.filter_map(|key| Some((key.clone(), self.get(key, now_ms)?.to_vec()))).collect()
    }

    pub(crate) fn newest_timestamp(&self) -> u64 {
        self.cells.values().map(|cell| cell.stamp.version.timestamp).max().unwrap_or(0)
    }

    /// Compares all that a store answers with all that it should.
    pub(crate) fn assert_held_by(&self, engine: &Engine, now_ms: u64, context: &str) {
        for key in self.keys() {
            let found =
                engine.get_cell(key).unwrap_or_else(|error| panic!("{context}: get {key:?}: {error}"));
            let found = live(found, now_ms);
            assert_eq!(found.as_deref(), self.get(key, now_ms), "{context}: get {}", key.escape_ascii());
        }
        self.assert_cells_of(engine, now_ms, context);
        let expected = self.range(b"", None, now_ms);
        let range = || engine.snapshot().range(b"", None).live_at_ms(now_ms);
        assert_same(&forward(range()), &expected, &format!("{context}: forward"));
        let mut backward = backward(range());
        backward.reverse();
        assert_same(&backward, &expected, &format!("{context}: backward"));
    }
}

impl Model {
    /// Compares cells with what a store answers. Dead cells may be gone.
    fn assert_cells_of(&self, engine: &Engine, now_ms: u64, context: &str) {
        for (key, cell) in &self.cells {
            let found = engine.get_cell(key).unwrap();
            let is_live = self.get(key, now_ms).is_some();
            assert_eq!(found.as_ref().is_some_and(|found| !found.is_absent(now_ms)), is_live, "{context}");
            if let Some(found) = found {
                assert_eq!(found.stamp, cell.stamp, "{context}: {}", key.escape_ascii());
            }
        }
        let mut range = engine.snapshot().range(b"", None);
        let cells = std::iter::from_fn(|| range.next_cell().unwrap());
        let cells: Vec<_> = cells.map(|(key, cell)| (key.to_vec(), cell.stamp)).collect();
        let mut range = engine.snapshot().range(b"", None);
        let backward = std::iter::from_fn(|| range.next_cell_from(Side::Back).unwrap());
        let mut backward: Vec<_> = backward.map(|(key, cell)| (key.to_vec(), cell.stamp)).collect();
        backward.reverse();
        assert_eq!(backward, cells, "{context}: cells backward");
        let stamps: BTreeMap<Vec<u8>, Stamp> = cells.into_iter().collect();
        for (key, stamp) in &stamps {
            assert_eq!(Some(stamp), self.cells.get(key).map(|cell| &cell.stamp), "{context}");
        }
        assert!(self.range(b"", None, now_ms).iter().all(|(key, _)| stamps.contains_key(key)), "{context}");
    }
}

pub(crate) fn assert_same(found: &Pairs, expected: &Pairs, context: &str) {
    if found == expected {
        return;
    }
    let name = |pairs: &Pairs| -> Vec<String> {
        pairs.iter().map(|(key, value)| format!("{}={}", key.escape_ascii(), value.len())).collect()
    };
    assert_eq!(name(found), name(expected), "{context}");
    panic!("{context}: the same keys and lengths, but other values");
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    read_value(value).unwrap().to_vec()
}

/// The value of a cell, unless it has expired.
pub(crate) fn live(cell: Option<StoredCell>, now_ms: u64) -> Option<Vec<u8>> {
    cell.and_then(|cell| cell.as_of_ms(|| now_ms).value).map(|value| bytes(&value))
}

pub(crate) fn length(value: &Value) -> u64 {
    match value {
        Value::Inline(bytes) => bytes.len() as u64,
        Value::Large(blob) => blob.len(),
    }
}

pub(crate) fn forward(mut range: Range) -> Pairs {
    std::iter::from_fn(|| range.next().unwrap()).map(|(key, value)| (key.to_vec(), bytes(&value))).collect()
}

/// The next record from this side, by looks at a few cells each.
pub(crate) fn step(range: &mut Range, side: Side, looks: u32) -> Option<(Vec<u8>, Vec<u8>)> {
    loop {
        let mut left = looks;
        let step = range.step(side, &mut left).unwrap();
        assert!(left <= looks, "no more was looked at than was allowed");
        match step {
            RangeStep::Found(key, cell) => return Some((key.to_vec(), bytes(&cell.value.expect("a value")))),
            RangeStep::NotYet => assert_eq!(left, 0, "it stops before the bound is reached"),
            RangeStep::End => return None,
        }
    }
}

pub(crate) fn backward(mut range: Range) -> Pairs {
    std::iter::from_fn(|| range.next_back().unwrap())
        .map(|(key, value)| (key.to_vec(), bytes(&value)))
        .collect()
}
