//! What happens between two steps of another thread, at one exact moment: whenever the engine asks for the time.

use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::time::Duration;

use ladoga_env::sim::{Fault, Operation, PowerCut, SimClock};
use ladoga_env::{Clock, Env};
use ladoga_storage::{Durability, Engine, Options};

use crate::support::{Machine, Write, batch, tiny_options, write};

type Hook = Box<dyn FnOnce(&Engine) + Send>;

/// A clock that lets something else happen, once, before it answers.
#[derive(Default)]
struct HookedClock {
    clock: SimClock,
    engine: OnceLock<Weak<Engine>>,
    hook: Mutex<Option<Hook>>,
    /// For when it is asked how long something takes.
    timing_hook: Mutex<Option<Hook>>,
}

impl HookedClock {
    fn before_the_next_answer(&self, hook: impl FnOnce(&Engine) + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }
}

impl Clock for HookedClock {
    fn wall_ms(&self) -> u64 {
        let hook = self.hook.lock().unwrap().take();
        if let (Some(hook), Some(engine)) = (hook, self.engine.get().and_then(Weak::upgrade)) {
            hook(&engine);
        }
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        let hook = self.timing_hook.lock().unwrap().take();
        if let (Some(hook), Some(engine)) = (hook, self.engine.get().and_then(Weak::upgrade)) {
            hook(&engine);
        }
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

fn open() -> (Machine, Arc<HookedClock>, Arc<Engine>) {
    let options = Options { tombstone_age_ms_min: Some(0), ..tiny_options(Durability::Never) };
    let machine = Machine::new(8, options.clone());
    let clock = Arc::new(HookedClock { clock: machine.clock.clone(), ..HookedClock::default() });
    let env = Env { clock: clock.clone(), ..machine.env() };
    let engine = Arc::new(Engine::open(env, &machine.dir, options).unwrap());
    clock.engine.set(Arc::downgrade(&engine)).unwrap();
    (machine, clock, engine)
}

/// The compaction has chosen its tables when the memtable that holds an older value becomes a table. The tombstone may
/// not go: it hides that value.
#[test]
fn a_memtable_is_flushed_while_a_compaction_begins() {
    let (_machine, clock, engine) = open();
    write(&engine, &[Write::delete("key", 500)]).unwrap();
    engine.seal().unwrap();
    assert!(engine.step().unwrap(), "a flush");
    write(&engine, &[Write::put("key", 100, 10)]).unwrap();
    clock.before_the_next_answer(|engine| {
        engine.seal().unwrap();
        assert!(engine.step().unwrap(), "another flush");
    });
    assert!(engine.step().unwrap(), "a compaction");
    assert!(clock.hook.lock().unwrap().is_none(), "it asked for the time");
    assert_eq!(engine.statistics().flushes, 2);
    while engine.step().unwrap() {}
    assert!(engine.get(b"key").unwrap().is_none(), "a deleted value is back");
}

/// One thread is about to sync what was written to two segments, of which the first cannot be synced. Another thread asks for a
/// sync meanwhile, and must not be told that all is durable because only the second segment is left to sync.
#[test]
fn two_threads_sync_the_log() {
    let (machine, clock, engine) = open();
    write(&engine, &[Write::put("in the first segment", 1, 10)]).unwrap();
    engine.seal().unwrap();
    write(&engine, &[Write::put("in the second", 2, 10)]).unwrap();
    machine.disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("000001.wal"));
    let (answer, answers) = mpsc::channel();
    let other = engine.clone();
    *clock.timing_hook.lock().unwrap() = Some(Box::new(move |_| {
        let (begun, begins) = mpsc::channel();
        std::thread::spawn(move || {
            begun.send(()).unwrap();
            answer.send(other.sync()).unwrap();
        });
        begins.recv().unwrap();
        // Time for the wrong answer to arrive.
        (0..1000).for_each(|_| std::thread::yield_now());
    }));
    assert!(engine.sync().is_err());
    assert!(answers.recv().unwrap().is_err(), "the first segment is not durable");
}

/// The same for a group that is synced as it is written.
#[test]
fn a_group_that_is_synced_meets_a_sync_that_fails() {
    let (machine, clock, engine) = open();
    write(&engine, &[Write::put("in the first segment", 1, 10)]).unwrap();
    engine.seal().unwrap();
    write(&engine, &[Write::put("in the second", 2, 10)]).unwrap();
    machine.disk.fail_operation(0, Fault::io().on(Operation::Sync).on_path("000001.wal"));
    let (answer, answers) = mpsc::channel();
    let other = engine.clone();
    *clock.timing_hook.lock().unwrap() = Some(Box::new(move |_| {
        let (begun, begins) = mpsc::channel();
        std::thread::spawn(move || {
            let group = batch(&other, &[Write::put("asked", 3, 10)]).unwrap();
            begun.send(()).unwrap();
            answer.send(other.write_group_as(&[group], Durability::Always)).unwrap();
        });
        begins.recv().unwrap();
        // Time for the wrong answer to arrive.
        (0..1000).for_each(|_| std::thread::yield_now());
    }));
    assert!(engine.sync().is_err());
    assert!(answers.recv().unwrap().is_err(), "what was before it is not durable");
    assert!(engine.get(b"asked").unwrap().is_none(), "it is not shown");
}

#[test]
fn writes_go_on_while_another_thread_syncs_the_log() {
    let (machine, clock, engine) = open();
    write(&engine, &[Write::put("before", 1, 10)]).unwrap();
    let (done, when_done) = mpsc::channel();
    *clock.timing_hook.lock().unwrap() = Some(Box::new(move |engine| {
        let group = batch(engine, &[Write::put("meanwhile", 2, 10)]).unwrap();
        done.send(engine.try_write_group(&[group]).unwrap()).unwrap();
    }));
    engine.sync().unwrap();
    assert!(when_done.recv().unwrap(), "nothing is in the way");
    assert!(engine.get(b"meanwhile").unwrap().is_some());
    // It came after what is being synced was noted, so it is left to the next sync.
    let syncs = engine.statistics().syncs.count();
    engine.sync().unwrap();
    assert_eq!(engine.statistics().syncs.count(), syncs + 1);
    drop(engine);
    machine.disk.power_cut(PowerCut::LoseAll);
    machine.disk.power_on();
    assert!(machine.open().unwrap().get(b"meanwhile").unwrap().is_some());
}
