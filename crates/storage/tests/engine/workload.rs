//! What crash and fault tests let a store do, and what it has to answer afterwards.

use ladoga_storage::{Engine, Error};

use crate::support::{Machine, Model, Write, bytes, settle, write};

/// One step of a workload.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Write(Vec<Write>),
    /// One step of background work.
    Work,
    Seal,
    /// A sync of everything so far.
    Sync,
    /// The store is closed and opened again.
    Reopen,
    /// It is dropped without being closed.
    Drop,
}

/// Overwrites, deletes, blobs, versions out of order, batches; several memtables and levels.
pub(crate) fn workload() -> Vec<Step> {
    let key = |n: u64| format!("key-{:03}", n % 23).into_bytes();
    let mut steps = Vec::new();
    let mut timestamp = 1000;
    for round in 0..60_u64 {
        timestamp += 10;
        let mut writes = vec![Write::put(key(round * 7), timestamp, 200 + (round as usize * 37) % 400)];
        if round % 3 == 0 {
            writes.push(Write::delete(key(round * 5 + 1), timestamp + 1));
        }
        if round % 5 == 0 {
            writes.push(Write::blob(key(round * 3 + 2), timestamp + 2, 700));
        }
        if round % 4 == 0 {
            // Older than the stored version, mostly.
            writes.push(Write::put(key(round * 7 + 14), timestamp - 300, 50));
        }
        steps.push(Step::Write(writes));
        match round {
            25 => steps.push(Step::Reopen),
            40 => steps.push(Step::Drop),
            33 | 44 | 47 => steps.push(Step::Seal),
            12 | 50 => steps.push(Step::Sync),
            _ => {}
        }
        // In between, memtables are left to wait for their flush.
        if round % 4 == 3 && !(24..52).contains(&round) {
            steps.push(Step::Work);
        }
    }
    steps
}

/// What is known of a store from outside.
#[derive(Default)]
pub(crate) struct Known {
    /// After each acknowledged batch; the first is the empty store.
    pub(crate) history: Vec<Model>,
    /// How many of those are known to be durable, whatever the durability.
    pub(crate) durable: usize,
    /// Writes that were neither acknowledged nor refused.
    pub(crate) in_flight: Vec<Write>,
}

impl Known {
    pub(crate) fn new() -> Known {
        Known::of(Model::default())
    }

    /// A store that is in this state.
    pub(crate) fn of(model: Model) -> Known {
        Known { history: vec![model], durable: 0, in_flight: Vec::new() }
    }

    pub(crate) fn acknowledged(&self) -> &Model {
        self.history.last().unwrap()
    }

    pub(crate) fn acknowledge(&mut self, writes: &[Write]) {
        self.history.push(self.acknowledged().with(writes));
        self.in_flight.clear();
    }

    pub(crate) fn all_is_durable(&mut self) {
        self.durable = self.history.len() - 1;
    }

    /// Which of the two possible states the store is in: with the writes in flight, or without.
    pub(crate) fn state_of(&self, engine: &Engine) -> Model {
        let without = self.acknowledged();
        let with = without.with(&self.in_flight);
        let shows_it = self.in_flight.iter().any(|write| {
            let found = engine.get(&write.key).unwrap().map(|value| bytes(&value));
            let (before, after) = (without.get(&write.key, 0), with.get(&write.key, 0));
            before != after && found.as_deref() == after
        });
        if shows_it { with } else { without.clone() }
    }
}

/// Runs until the end, or the first error.
pub(crate) fn run(machine: &Machine, steps: &[Step], known: &mut Known) -> Result<Engine, Error> {
    run_with(machine, steps, known, |engine, writes| write(engine, writes).map(|()| false))
}

/// The same with writes that are made by `write`, which answers whether all is durable by then.
pub(crate) fn run_with(
    machine: &Machine,
    steps: &[Step],
    known: &mut Known,
    write: impl Fn(&Engine, &[Write]) -> Result<bool, Error>,
) -> Result<Engine, Error> {
    let mut engine = machine.open()?;
    for step in steps {
        match step {
            Step::Write(writes) => {
                known.in_flight.clone_from(writes);
                let is_durable = write(&engine, writes)?;
                known.acknowledge(writes);
                if is_durable {
                    known.all_is_durable();
                }
            }
            Step::Work => drop(engine.step()?),
            Step::Seal => engine.seal()?,
            Step::Sync => {
                engine.sync()?;
                known.all_is_durable();
            }
            Step::Reopen | Step::Drop => {
                if matches!(step, Step::Reopen) {
                    engine.close()?;
                    known.all_is_durable();
                }
                drop(engine);
                engine = machine.open()?;
                known.all_is_durable();
            }
        }
    }
    Ok(engine)
}

/// Opens the store after a crash: acknowledged writes are there; writes in flight are there whole, or not at all; the directory
/// is sound; writing goes on.
pub(crate) fn assert_recovers(machine: &Machine, known: &Known, context: &str) {
    machine.assert_sound(&format!("{context}, crashed"));
    let engine = machine.open().unwrap_or_else(|error| panic!("{context}: does not open: {error}"));
    let model = known.state_of(&engine);
    model.assert_held_by(&engine, machine.now_ms(), context);
    assert_eq!(engine.lost_groups(), 0, "{context}");
    assert!(engine.last_timestamp() <= model.newest_timestamp(), "{context}");
    assert_goes_on(machine, engine, model, context);
}

/// Writes, compacts, opens again, closes, and is sound after each.
pub(crate) fn assert_goes_on(machine: &Machine, engine: Engine, mut model: Model, context: &str) {
    let more =
        [Write::put("key-000", 9000, 300), Write::delete("key-001", 9001), Write::blob("z", 9002, 900)];
    write(&engine, &more).unwrap_or_else(|error| panic!("{context}: does not go on: {error}"));
    model.apply(&more);
    settle(&engine).unwrap();
    model.assert_held_by(&engine, machine.now_ms(), &format!("{context}, gone on"));
    drop(engine);
    machine.assert_sound(context);
    let engine = machine.open().unwrap();
    model.assert_held_by(&engine, machine.now_ms(), &format!("{context}, gone on, reopened"));
    engine.close().unwrap();
    machine.assert_sound(&format!("{context}, closed"));
}
