//! Any sequence of operations answers as a `BTreeMap` does.

use std::path::PathBuf;
use std::time::Duration;

use ladoga_model::HybridClock;
use ladoga_storage::{
    Cached, Cell, Durability, Engine, Error, LEVELS, PendingRead, ReadTier, Side, Snapshot,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use crate::paused::drive;
use crate::support::{
    Change, Machine, Model, Pairs, Write, assert_same, backward, bytes, forward, live, settle, step,
    tiny_options, write,
};

#[derive(Debug, Clone)]
enum Action {
    /// One atomic batch. Each with how far its version lies back.
    Write(Vec<(u8, Kind, u64)>),
    Step,
    Settle,
    Seal,
    Close,
    Drop,
    Sync,
    Snapshot,
    DropSnapshot(usize),
    Checkpoint,
    Get(u8),
    BeginGet(u8),
    EndGet(usize),
    Range {
        start: u8,
        end: Option<u8>,
        from_front: Vec<bool>,
        /// At how many cells each step looks.
        looks: u32,
    },
    Advance(u64),
    /// From here on, nothing older than now is written.
    SettleBefore,
    /// What has expired by now may lose its bytes.
    Expire,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Put(usize),
    /// Expires so many milliseconds from now.
    Expiring(usize, u64),
    Blob(usize),
    ExpiringBlob(usize, u64),
    Delete,
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => (0..600_usize).prop_map(Kind::Put),
        2 => (0..600_usize, 1..2000_u64).prop_map(|(len, ms)| Kind::Expiring(len, ms)),
        1 => (0..3000_usize).prop_map(Kind::Blob),
        1 => (0..3000_usize, 1..60_000_u64).prop_map(|(len, ms)| Kind::ExpiringBlob(len, ms)),
        3 => Just(Kind::Delete),
    ]
}

fn actions() -> impl Strategy<Value = Action> {
    let cell = (0..40_u8, kinds(), prop_oneof![3 => Just(0_u64), 1 => 0..6_u64]);
    let bound = 0..44_u8;
    prop_oneof![
        40 => prop::collection::vec(cell, 1..6).prop_map(Action::Write),
        12 => Just(Action::Step),
        1 => Just(Action::Settle),
        4 => Just(Action::Seal),
        2 => Just(Action::Close),
        2 => Just(Action::Drop),
        1 => Just(Action::Sync),
        4 => Just(Action::Snapshot),
        3 => any::<usize>().prop_map(Action::DropSnapshot),
        1 => Just(Action::Checkpoint),
        6 => bound.clone().prop_map(Action::Get),
        6 => bound.clone().prop_map(Action::BeginGet),
        3 => any::<usize>().prop_map(Action::EndGet),
        6 => (bound.clone(), prop::option::of(bound), prop::collection::vec(any::<bool>(), 0..60), 1..4_u32)
            .prop_map(|(start, end, from_front, looks)| Action::Range { start, end, from_front, looks }),
        2 => (0..1500_u64).prop_map(Action::Advance),
        1 => (0..60_000_u64).prop_map(Action::Advance),
        1 => Just(Action::SettleBefore),
        2 => Just(Action::Expire),
    ]
}

/// Keys that share beginnings, are prefixes of each other, and hold zeros.
fn key(n: u8) -> Vec<u8> {
    match n % 4 {
        0 => format!("k{:02}", n / 4).into_bytes(),
        1 => format!("k{:02}\0", n / 4).into_bytes(),
        2 => format!("k{:02}-with-a-longer-tail", n / 4).into_bytes(),
        _ => vec![n; 1 + usize::from(n) * 3],
    }
}

struct Kept {
    snapshot: Snapshot,
    model: Model,
    now_ms: u64,
}

/// A read that has begun, and what there was then.
struct Paused {
    key: Vec<u8>,
    read: Box<PendingRead>,
    model: Model,
}

struct Run {
    machine: Machine,
    engine: Engine,
    model: Model,
    kept: Vec<Kept>,
    paused: Vec<Paused>,
    /// A timestamp is a time that goes on with each write, and a counter that makes it unique.
    coarse_ms: u64,
    floor_ms: u64,
    count: u64,
    checkpoints: u64,
}

impl Run {
    fn new(durability: Durability) -> Run {
        let machine = Machine::new(7, tiny_options(durability));
        let engine = machine.open().unwrap();
        let (model, kept, paused) = (Model::default(), Vec::new(), Vec::new());
        let coarse_ms = machine.now_ms();
        Run { machine, engine, model, kept, paused, coarse_ms, floor_ms: 0, count: 0, checkpoints: 0 }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Write(cells) => self.write(cells),
            Action::Step => drop(self.engine.step().unwrap()),
            Action::Settle => settle(&self.engine).unwrap(),
            Action::Seal => self.engine.seal().unwrap(),
            Action::Close => self.reopen(true),
            Action::Drop => self.reopen(false),
            Action::Sync => self.engine.sync().unwrap(),
            Action::Snapshot => self.kept.push(Kept {
                snapshot: self.engine.snapshot(),
                model: self.model.clone(),
                now_ms: self.machine.now_ms(),
            }),
            Action::DropSnapshot(index) => {
                if !self.kept.is_empty() {
                    self.kept.swap_remove(index % self.kept.len());
                }
            }
            Action::Checkpoint => self.checkpoint(),
            Action::Get(n) => self.get(&key(*n)),
            Action::BeginGet(n) => self.begin_get(&key(*n)),
            Action::EndGet(index) => self.end_get(*index),
            Action::Range { start, end, from_front, looks } => self.range(*start, *end, from_front, *looks),
            Action::Advance(ms) => self.machine.clock.advance(Duration::from_millis(*ms)),
            Action::SettleBefore => {
                self.floor_ms = self.coarse_ms.max(self.machine.now_ms()) + 1;
                self.coarse_ms = self.floor_ms;
                self.engine.drop_tombstones_before(HybridClock::at_wall_ms(self.floor_ms));
            }
            Action::Expire => self.engine.drop_values_expired_before_ms(self.machine.now_ms()),
        }
    }

    fn write(&mut self, cells: &[(u8, Kind, u64)]) {
        self.coarse_ms = self.machine.now_ms().max(self.coarse_ms + 1);
        let writes: Vec<Write> = cells.iter().map(|(n, kind, back)| self.cell(*n, *kind, *back)).collect();
        write(&self.engine, &writes).unwrap();
        self.model.apply(&writes);
    }

    fn cell(&mut self, n: u8, kind: Kind, back: u64) -> Write {
        self.count += 1;
        let coarse_ms = self.coarse_ms.saturating_sub(back * 3).max(self.floor_ms);
        let timestamp = HybridClock::at_wall_ms(coarse_ms) + self.count;
        let in_ms = |ms| self.machine.now_ms() + ms;
        let change = match kind {
            Kind::Put(len) => Change::Put { len, expires_at_ms: 0 },
            Kind::Expiring(len, ms) => Change::Put { len, expires_at_ms: in_ms(ms) },
            Kind::Blob(len) => Change::PutBlob { len, expires_at_ms: 0 },
            Kind::ExpiringBlob(len, ms) => Change::PutBlob { len, expires_at_ms: in_ms(ms) },
            Kind::Delete => Change::Delete,
        };
        Write { key: key(n), timestamp, change }
    }

    fn reopen(&mut self, close: bool) {
        self.kept.clear();
        self.paused.clear();
        if close {
            self.engine.close().unwrap();
        }
        let placeholder = self.machine.open_dir(&PathBuf::from("/placeholder")).unwrap();
        drop(std::mem::replace(&mut self.engine, placeholder));
        self.machine.assert_sound("reopen");
        self.engine = self.machine.open().unwrap();
        assert!(self.engine.last_timestamp() <= self.model.newest_timestamp());
        self.engine.drop_tombstones_before(HybridClock::at_wall_ms(self.floor_ms));
    }

    fn checkpoint(&mut self) {
        self.checkpoints += 1;
        let target = PathBuf::from(format!("/checkpoint-{}", self.checkpoints));
        self.engine.checkpoint(&target).unwrap();
        let copy = self.machine.open_dir(&target).unwrap();
        self.model.assert_held_by(&copy, self.machine.now_ms(), "checkpoint");
        // The two are apart from here on.
        write(&copy, &[Write::delete(key(0), HybridClock::TIMESTAMP_MAX)]).unwrap();
        settle(&copy).unwrap();
    }

    /// Begins a read on which it is gone on later, if memory cannot answer it.
    fn begin_get(&mut self, key: &[u8]) {
        if let Cached::NeedsDisk(read) = self.engine.get_cached(key, ReadTier::Memory).unwrap() {
            self.paused.push(Paused { key: key.to_vec(), read, model: self.model.clone() });
        }
    }

    /// A read answers what there was when it began.
    fn end_get(&mut self, index: usize) {
        if self.paused.is_empty() {
            return;
        }
        let Paused { key, read, model } = self.paused.swap_remove(index % self.paused.len());
        let now_ms = self.machine.now_ms();
        let found = live(drive(read).unwrap().0, now_ms);
        assert_eq!(found.as_deref(), model.get(&key, now_ms), "a read that had paused");
    }

    fn get(&self, key: &[u8]) {
        let now_ms = self.machine.now_ms();
        let expected = self.model.get(key, now_ms);
        let check = |found: Option<Cell>| assert_eq!(live(found, now_ms).as_deref(), expected);
        self.machine.disk.set_cached(false);
        // Changes nothing, whatever is where.
        self.engine.fetch_ahead(&[key, b"", &[key, b"0"].concat()]);
        for reach in [ReadTier::PageCache, ReadTier::Memory] {
            match self.engine.get_cell_cached(key, reach).unwrap() {
                Cached::Found(cell) => check(Some(cell)),
                Cached::Absent => check(None),
                Cached::NeedsDisk(read) => check(drive(read).unwrap().0),
            }
        }
        let found = self.engine.get_cell(key).unwrap();
        let value = found.as_ref().and_then(|cell| cell.value.as_ref()).map(bytes);
        assert_eq!(self.engine.get(key).unwrap().as_ref().map(bytes), value, "expired or not");
        check(found);
        self.machine.disk.set_cached(true);
        // Files are open and indexes in memory: the point read above has seen to that, for what it needs.
        match self.engine.get_cell_cached(key, ReadTier::PageCache).unwrap() {
            Cached::Found(cell) => check(Some(cell)),
            Cached::Absent => check(None),
            Cached::NeedsDisk(_) => panic!("the disk is needed for what was read just before"),
        }
    }

    fn range(&self, start: u8, end: Option<u8>, from_front: &[bool], looks: u32) {
        let (start, end) = (key(start), end.map(key));
        let now_ms = self.machine.now_ms();
        let mut expected: std::collections::VecDeque<_> =
            self.model.range(&start, end.as_deref(), now_ms).into();
        let mut range = self.engine.snapshot().range(&start, end.as_deref()).live_at_ms(now_ms);
        for front in from_front {
            let side = if *front { Side::Front } else { Side::Back };
            let wanted = if *front { expected.pop_front() } else { expected.pop_back() };
            assert_eq!(step(&mut range, side, looks), wanted, "from the front: {front}");
            // What memory has goes into tables while the range is read.
            if looks == 1 {
                assert!(self.engine.step().is_ok());
            }
        }
        let rest: Pairs = expected.into();
        assert_same(&forward(range), &rest, "the rest");
    }

    fn compare(&mut self) {
        self.model.assert_held_by(&self.engine, self.machine.now_ms(), "now");
        for kept in std::mem::take(&mut self.kept) {
            if let Some(kept) = kept.compare() {
                self.kept.push(kept);
            }
        }
    }
}

impl Kept {
    /// `None` if the snapshot was given up.
    fn compare(self) -> Option<Kept> {
        if let Err(error) = self.snapshot.range(b"", None).next() {
            assert!(matches!(error, Error::SnapshotTooOld { .. }), "{error}");
            return None;
        }
        let expected = self.model.range(b"", None, self.now_ms);
        let range = || self.snapshot.range(b"", None).live_at_ms(self.now_ms);
        assert_same(&forward(range()), &expected, "snapshot");
        let mut from_back = backward(range());
        from_back.reverse();
        assert_same(&from_back, &expected, "snapshot backward");
        for key in self.model.keys() {
            let found = live(self.snapshot.get_cell(key).unwrap(), self.now_ms);
            assert_eq!(found.as_deref(), self.model.get(key, self.now_ms), "snapshot get");
        }
        Some(self)
    }
}

fn run(actions: &[Action], durability: Durability) {
    let mut run = Run::new(durability);
    for (index, action) in actions.iter().enumerate() {
        run.act(action);
        if index % 16 == 15 {
            run.compare();
        }
    }
    run.compare();
    run.reopen(true);
    run.compare();
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(20_260_714),
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_is_a_map(
        actions in prop::collection::vec(actions(), 1..250),
        durability in prop_oneof![
            Just(Durability::Always), Just(Durability::EverySecond), Just(Durability::Never)
        ],
    ) {
        run(&actions, durability);
    }
}

#[test]
fn the_model_reaches_deep_levels() {
    let mut run = Run::new(Durability::Never);
    for round in 0..1500_u64 {
        let cells =
            [((round * 7 % 40) as u8, Kind::Put(500), 0), ((round * 11 % 40) as u8, Kind::Put(300), 0)];
        run.write(&cells);
        settle(&run.engine).unwrap();
    }
    run.compare();
    let filled = run.engine.statistics().levels.iter().filter(|level| level.tables > 0).count();
    assert!((2..=LEVELS).contains(&filled), "{filled} levels");
}
