//! The power fails at every sync and at every operation that changes something, also while the store recovers.

use ladoga_env::sim::PowerCut;
use ladoga_storage::{Durability, Options};

use crate::support::{Machine, Write, forward, tiny_options, write};
use crate::workload::{Known, Step, assert_goes_on, assert_recovers, run, workload};

/// The policies, with seeds for the dice.
pub(crate) const POLICIES: [(PowerCut, u64); 6] = [
    (PowerCut::LoseAll, 1),
    (PowerCut::KeepAll, 2),
    (PowerCut::Random, 3),
    (PowerCut::Random, 4),
    (PowerCut::Random, 5),
    (PowerCut::Random, 6),
];

pub(crate) type Plan = fn(&Machine, u64, PowerCut);

pub(crate) const AT_SYNC: Plan = |machine, n, policy| machine.disk.cut_power_at_sync(n, policy);
pub(crate) const AT_OPERATION: Plan = |machine, n, policy| machine.disk.cut_power_at_operation(n, policy);

/// Runs the workload with the `n`-th cut; `None` if it ended before that.
fn crashed(
    durability: Durability,
    seed: u64,
    steps: &[Step],
    cut: impl Fn(&Machine),
) -> Option<(Machine, Known)> {
    let machine = Machine::new(seed, tiny_options(durability));
    cut(&machine);
    let mut known = Known::new();
    if let Err(error) = run(&machine, steps, &mut known).and_then(|engine| engine.close()) {
        assert!(!machine.disk.is_powered(), "failed with the power on: {error}");
        machine.disk.power_on();
        return Some((machine, known));
    }
    None
}

fn cut_everywhere(plan: Plan, durability: Durability, verify: impl Fn(&Machine, &Known, &str)) {
    let steps = workload();
    for (policy, seed) in POLICIES {
        let mut n = 0;
        while let Some((machine, known)) = crashed(durability, seed, &steps, |m| plan(m, n, policy)) {
            verify(&machine, &known, &format!("{policy:?}, seed {seed}, cut {n}"));
            n += 1;
        }
        assert!(n > 30, "the workload has only {n} places for a cut");
    }
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_every_sync() {
    cut_everywhere(AT_SYNC, Durability::Always, assert_recovers);
}

#[test]
fn what_was_acknowledged_survives_a_power_cut_at_every_operation() {
    cut_everywhere(AT_OPERATION, Durability::Always, assert_recovers);
}

/// Each recovery is cut off later than the one before, until one gets through. (Two operations later: one that is cut off
/// may leave a file that the next has to remove.)
fn recover_under_cuts(machine: &Machine, first: u64, policy: PowerCut, context: &str) {
    for n in (first..).step_by(2) {
        AT_OPERATION(machine, n, policy);
        let opened = machine.open();
        let cut = !machine.disk.is_powered();
        machine.disk.clear_faults();
        machine.disk.power_on();
        match opened {
            Ok(engine) if !cut => return drop(engine),
            Err(error) if !cut => panic!("{context}, recovery cut at {n}: does not open: {error}"),
            _ => machine.assert_sound(&format!("{context}, recovery cut at {n}")),
        }
    }
}

/// Every third operation of the workload, every operation of what recovers from it.
fn cut_twice(durability: Durability, verify: impl Fn(&Machine, &Known, &str)) {
    let steps = workload();
    for (policy, seed) in POLICIES {
        let mut n = 0;
        let cut = |machine: &Machine, n| AT_OPERATION(machine, n, policy);
        while let Some((machine, known)) = crashed(durability, seed, &steps, |machine| cut(machine, n)) {
            let context = format!("{policy:?}, seed {seed}, cut {n}");
            recover_under_cuts(&machine, n % 2, policy, &context);
            verify(&machine, &known, &context);
            n += 3;
        }
    }
}

#[test]
fn a_power_cut_at_every_operation_of_the_recovery_loses_nothing_either() {
    cut_twice(Durability::Always, assert_recovers);
}

/// A store that was written with memtables eight times as large: four of them, large values among what is replaced.
fn written_with_more_memory(seed: u64, durability: Durability) -> (Machine, Known) {
    let options = Options {
        memtable_bytes: Some(64 << 10),
        first_segment_bytes: Some(u64::MAX),
        ..tiny_options(durability)
    };
    let mut machine = Machine::new(seed, options);
    let engine = machine.open().unwrap();
    let mut known = Known::new();
    for n in 1..360_u64 {
        let mut writes = vec![Write::put(format!("key-{:03}", n * 31 % 97), n * 10, 500)];
        if n % 25 == 0 {
            writes.push(Write::blob(format!("blob-{}", n % 2), n * 10 + 1, 300));
            writes.push(Write::delete(format!("key-{:03}", n % 97), n * 10 + 2));
        }
        write(&engine, &writes).unwrap();
        known.acknowledge(&writes);
    }
    assert_eq!((engine.statistics().sealed_memtables, engine.statistics().flushes), (3, 0));
    engine.sync().unwrap();
    machine.options = tiny_options(durability);
    (machine, known)
}

/// Every operation with one policy or another, every sync with each.
#[test]
fn a_power_cut_at_every_operation_of_a_recovery_with_less_memory_loses_nothing() {
    for (index, (policy, seed)) in POLICIES.into_iter().enumerate() {
        for (plan, first, step) in [(AT_OPERATION, index as u64, POLICIES.len()), (AT_SYNC, 0, 1)] {
            let mut cuts = 0;
            for n in (first..).step_by(step) {
                let (machine, known) = written_with_more_memory(seed, Durability::Always);
                plan(&machine, n, policy);
                let is_open = machine.open().map(drop).is_ok();
                let was_cut = !machine.disk.is_powered();
                machine.disk.clear_faults();
                machine.disk.power_on();
                assert_recovers(&machine, &known, &format!("{policy:?}, seed {seed}, recovery cut at {n}"));
                if !was_cut {
                    assert!(is_open);
                    break;
                }
                cuts += 1;
            }
            assert!(cuts > 30, "a recovery has only {cuts} places for a cut");
        }
    }
}

#[test]
fn a_recovery_with_less_memory_leaves_the_log_in_tables() {
    let (machine, known) = written_with_more_memory(1, Durability::Never);
    let engine = machine.open().unwrap();
    let statistics = engine.statistics();
    assert_eq!((statistics.sealed_memtables, statistics.sealed_bytes), (0, 0));
    assert!(statistics.levels[0].tables > 20, "{:?}", statistics.levels[0]);
    let segments =
        machine.disk.paths().into_iter().filter(|path| path.extension().is_some_and(|e| e == "wal"));
    assert_eq!(segments.count(), 1, "{:?}", machine.disk.paths());
    known.acknowledged().assert_held_by(&engine, machine.now_ms(), "opened with less");
    assert_eq!(engine.last_timestamp(), known.acknowledged().newest_timestamp());
}

#[test]
fn a_power_cut_during_the_recovery_leaves_a_prefix_too() {
    cut_twice(Durability::EverySecond, assert_is_a_prefix);
}

/// After a cut of a store that does not sync every group, it is what it was after one of the acknowledged groups.
pub(crate) fn assert_is_a_prefix(machine: &Machine, known: &Known, context: &str) {
    machine.assert_sound(context);
    let engine = machine.open().unwrap_or_else(|error| panic!("{context}: does not open: {error}"));
    let found = forward(engine.snapshot().range(b"", None));
    let with_in_flight = known.acknowledged().with(&known.in_flight);
    let mut states = known.history[known.durable..].iter().chain([&with_in_flight]);
    let state = states.find(|state| state.range(b"", None, machine.now_ms()) == found);
    let Some(model) = state.cloned() else {
        panic!("{context}: in no state that it was in since the last sync")
    };
    model.assert_held_by(&engine, machine.now_ms(), context);
    assert_goes_on(machine, engine, model, context);
}

#[test]
fn without_syncs_a_power_cut_leaves_a_prefix_of_what_was_acknowledged() {
    for durability in [Durability::EverySecond, Durability::Never] {
        cut_everywhere(AT_OPERATION, durability, assert_is_a_prefix);
    }
}

/// A cut that keeps all is what a process sees that dies in the middle of an operation.
#[test]
fn a_killed_process_loses_nothing_with_any_durability() {
    let steps = workload();
    for durability in [Durability::EverySecond, Durability::Never] {
        let cut = |machine: &Machine, n| AT_OPERATION(machine, n, PowerCut::KeepAll);
        let mut n = 0;
        while let Some((machine, known)) = crashed(durability, 1, &steps, |machine| cut(machine, n)) {
            assert_recovers(&machine, &known, &format!("{durability:?}, killed in operation {n}"));
            n += 1;
        }
        for n in 1..=steps.len() {
            let machine = Machine::new(1, tiny_options(durability));
            let mut known = Known::new();
            let engine = run(&machine, &steps[..n], &mut known).unwrap();
            machine.disk.kill_process();
            drop(engine);
            assert_recovers(&machine, &known, &format!("{durability:?}, killed after step {n}"));
        }
    }
}
