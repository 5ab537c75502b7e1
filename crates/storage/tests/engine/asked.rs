//! Groups that ask for a durability of their own, stronger or weaker than the store's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ladoga_env::sim::{Fault, Operation, PowerCut, SimClock};
use ladoga_env::{Clock, Env, Priority};
use ladoga_storage::{Background, Durability, Engine, Error, Options, WriteBatch, WriteState};

use crate::crash::{AT_OPERATION, AT_SYNC, POLICIES, Plan, assert_is_a_prefix};
use crate::support::{Machine, Model, Write, batch, tiny_options};
use crate::workload::{Known, run_with, workload};

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

fn write_as(engine: &Engine, writes: &[Write], durability: Durability) -> Result<(), Error> {
    engine.write_group_as(&[batch(engine, writes)?], durability)
}

/// Writes as a node does; answers whether all is durable by then. Half of what is to be synced is synced by a call of its own,
/// and half of what is not is tried first.
fn write_as_a_node(engine: &Engine, writes: &[Write], durability: Durability) -> Result<bool, Error> {
    let is_even = (writes[0].timestamp / 10).is_multiple_of(2);
    let batch = batch(engine, writes)?;
    match durability {
        Durability::Always if is_even && engine.durability() != Durability::Always => {
            engine.write_group(&[batch])?;
            engine.sync()?;
        }
        _ if is_even && engine.try_write_group_as(std::slice::from_ref(&batch), durability)? => {}
        _ => engine.write_group_as(&[batch], durability)?,
    }
    Ok(durability == Durability::Always)
}

/// Cuts the power of a store of each durability, at each place with one policy or another, while every few writes ask to be
/// synced: what such a write was told of survives, and all before it.
fn cut_everywhere(plan: Plan, every: u64) {
    let steps = workload();
    for node in Durability::ALL {
        for (index, (policy, seed)) in POLICIES.into_iter().enumerate() {
            let mut cuts = 0;
            for n in (index as u64..).step_by(POLICIES.len()) {
                let machine = Machine::new(seed, tiny_options(node));
                plan(&machine, n, policy);
                let mut known = Known::new();
                let ran = run_with(&machine, &steps, &mut known, |engine, writes| {
                    let is_asked = writes[0].timestamp / 10 % every == 0;
                    let weaker = if n % 2 == 0 { Durability::Never } else { Durability::EverySecond };
                    write_as_a_node(engine, writes, if is_asked { Durability::Always } else { weaker })
                });
                let Err(error) = ran.and_then(|engine| engine.close()) else { break };
                assert!(!machine.disk.is_powered(), "failed with the power on: {error}");
                machine.disk.power_on();
                assert_is_a_prefix(&machine, &known, &format!("{node:?}, {every}, {policy:?}, cut {n}"));
                cuts += 1;
            }
            assert!(cuts > 3, "the workload has only {cuts} places for a cut");
        }
    }
}

#[test]
fn what_asked_to_be_synced_survives_a_power_cut_at_every_operation() {
    cut_everywhere(AT_OPERATION, 3);
}

/// Memtables fill up between two writes that ask, so that what comes before one is in several segments.
#[test]
fn what_asked_to_be_synced_after_many_that_did_not_survives_a_power_cut_at_every_sync() {
    cut_everywhere(AT_SYNC, 11);
    cut_everywhere(AT_SYNC, 3);
}

#[test]
fn what_asked_is_there_after_a_power_cut_and_what_did_not_ask_is_gone() {
    for node in Durability::ALL {
        let machine = Machine::new(1, tiny_options(node));
        let engine = machine.open().unwrap();
        let groups = [
            (Write::put("before", 1, 10), Durability::Never),
            (Write::put("asked", 2, 10), Durability::Always),
            (Write::put("behind", 3, 10), Durability::Never),
            (Write::put("soon", 4, 10), Durability::EverySecond),
        ];
        for (write, durability) in &groups {
            write_as(&engine, std::slice::from_ref(write), *durability).unwrap();
        }
        drop(engine);
        machine.disk.power_cut(PowerCut::LoseAll);
        machine.disk.power_on();
        let there = [groups[0].0.clone(), groups[1].0.clone()];
        let engine = machine.open().unwrap();
        Model::default().with(&there).assert_held_by(&engine, 0, &format!("{node:?}"));
        let lost = groups[2..].iter().all(|(write, _)| engine.get(&write.key).unwrap().is_none());
        assert!(lost, "nobody synced them with {node:?}");
    }
}

/// A condition that is not met is answered with the version that is there: a power cut must not take that back.
#[test]
fn what_decided_that_nothing_is_written_is_as_durable_as_what_would_have_been() {
    for node in Durability::ALL {
        for sealed_memtables in [0, 1, 2] {
            let machine = Machine::new(1, tiny_options(node));
            let (engine, mut model) = (machine.open().unwrap(), Model::default());
            for n in 1_u64.. {
                let writes = [Write::put(format!("key-{n}"), n, 200)];
                write_as(&engine, &writes, Durability::Never).unwrap();
                model.apply(&writes);
                if engine.statistics().sealed_memtables == sealed_memtables {
                    break;
                }
            }
            let made = engine.try_write_made((1, 100), Durability::Always, Vec::<WriteBatch>::new).unwrap();
            assert!(made.is_some(), "nothing is in its way");
            drop(engine);
            machine.disk.power_cut(PowerCut::LoseAll);
            machine.disk.power_on();
            let engine = machine.open().unwrap();
            model.assert_held_by(&engine, 0, &format!("{node:?}, {sealed_memtables}"));
        }
    }
}

/// Only the newest segment was synced, and what was in those before it was called durable.
#[test]
fn a_group_that_asks_syncs_the_segments_before_its_own() {
    for node in Durability::ALL {
        let machine = Machine::new(1, tiny_options(node));
        let (engine, mut model) = (machine.open().unwrap(), Model::default());
        for n in 1_u64.. {
            let writes = [Write::put(format!("key-{n}"), n, 200)];
            let is_last = engine.statistics().sealed_memtables == 2;
            let durability = if is_last { Durability::Always } else { Durability::Never };
            write_as(&engine, &writes, durability).unwrap();
            model.apply(&writes);
            if is_last {
                break;
            }
        }
        assert_eq!((engine.statistics().sealed_memtables, engine.statistics().flushes), (2, 0));
        drop(engine);
        machine.disk.power_cut(PowerCut::LoseAll);
        machine.disk.power_on();
        let engine = machine.open().unwrap();
        model.assert_held_by(&engine, 0, &format!("{node:?}"));
        assert_eq!(engine.lost_groups(), 0);
    }
}

/// The same if one of those cannot be synced: then nobody is told that all is well.
#[test]
fn a_group_that_asks_fails_if_a_segment_before_its_own_cannot_be_synced() {
    for node in Durability::ALL {
        let machine = Machine::new(1, tiny_options(node));
        let engine = machine.open().unwrap();
        write_as(&engine, &[Write::put("a", 1, 10)], Durability::Never).unwrap();
        engine.seal().unwrap();
        machine.disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("000001.wal"));
        let asked = write_as(&engine, &[Write::put("b", 2, 10)], Durability::Always);
        assert!(matches!(asked, Err(Error::Poisoned { .. })), "{node:?}: {asked:?}");
        assert_eq!(engine.write_state(), WriteState::Poisoned);
        assert!(engine.get(b"b").unwrap().is_none(), "it is not shown");
        for durability in Durability::ALL {
            let refused = write_as(&engine, &[Write::put("c", 3, 10)], durability);
            assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        }
    }
}

#[test]
fn what_asks_for_less_than_the_store_is_not_synced() {
    let machine = Machine::new(1, tiny_options(Durability::Always));
    let engine = machine.open().unwrap();
    let syncs = || engine.statistics().syncs.count();
    for (timestamp, durability) in [(1, Durability::Never), (2, Durability::EverySecond)] {
        write_as(&engine, &[Write::put("a", timestamp, 10)], durability).unwrap();
        let batch = batch(&engine, &[Write::put("b", timestamp, 10)]).unwrap();
        assert!(engine.try_write_group_as(&[batch], durability).unwrap(), "it need not wait");
        assert_eq!(syncs(), 0);
    }
    write_as(&engine, &[Write::put("a", 3, 10)], Durability::Always).unwrap();
    assert_eq!(syncs(), 1, "one for all");
    engine.sync().unwrap();
    engine.write_group_as(&[], Durability::Always).unwrap();
    assert_eq!(syncs(), 1, "nothing is left to sync");
    write_as(&engine, &[Write::put("a", 4, 10)], Durability::Never).unwrap();
    engine.write_group_as(&[], Durability::Always).unwrap();
    assert_eq!(syncs(), 2, "what was decided against is decided by what is on disk");
}

/// A clock that moves on by half a second whenever the thread that syncs looks at it.
struct Hurries {
    clock: SimClock,
    looks: AtomicU64,
}

impl Clock for Hurries {
    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        if thread::current().name() == Some("ladoga-sync") {
            self.looks.fetch_add(1, Ordering::SeqCst);
            self.clock.advance(Duration::from_millis(500));
            thread::sleep(Duration::from_millis(1));
        }
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }

    fn lower_thread_priority(&self, _: Priority) {}
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..DEADLINE.as_millis() {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} did not come");
}

#[test]
fn what_asks_for_a_second_is_synced_within_it_and_what_asks_for_nothing_is_not() {
    for node in [Durability::Always, Durability::Never] {
        let options = Options { background: Background::Threads, ..tiny_options(node) };
        let machine = Machine::new(1, options.clone());
        let clock = Arc::new(Hurries { clock: machine.clock.clone(), looks: AtomicU64::new(0) });
        let env = Env { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..machine.env() };
        let engine = Engine::open(env, &machine.dir, options).unwrap();
        let looks_more = || {
            let before = clock.looks.load(Ordering::SeqCst);
            wait_until("a look", || clock.looks.load(Ordering::SeqCst) > before + 10);
        };
        let syncs = || engine.statistics().syncs.count();
        let writes = [Write::put("never", 1, 10), Write::put("soon", 2, 10), Write::put("behind", 3, 10)];
        write_as(&engine, &writes[..1], Durability::Never).unwrap();
        looks_more();
        assert_eq!(syncs(), 0, "{node:?}: nobody asked");
        write_as(&engine, &writes[1..2], Durability::EverySecond).unwrap();
        wait_until("a sync", || syncs() == 1);
        write_as(&engine, &writes[2..], Durability::Never).unwrap();
        looks_more();
        assert_eq!(syncs(), 1, "{node:?}: it was done");
        // The flush of a memtable would make durable what nobody synced.
        machine.disk.power_cut(PowerCut::LoseAll);
        drop(engine);
        machine.disk.power_on();
        let engine = machine.open().unwrap();
        Model::default().with(&writes[..2]).assert_held_by(&engine, 0, &format!("{node:?}"));
        assert!(engine.get(b"behind").unwrap().is_none());
    }
}
