//! A thread panics in the middle of a write: no other thread waits for it for ever, and nothing half-written is flushed to
//! tables.

use std::collections::BTreeMap;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use ladoga_env::sim::SimClock;
use ladoga_env::{Clock, Env};
use ladoga_model::Version;
use ladoga_storage::{Durability, Engine, Error, Options, WriteState};

use crate::support::{Machine, Write, batch, tiny_options, write};

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);
const WRITERS: u64 = 8;

/// A clock that panics when a thread asks it how long something takes.
struct PanickingClock {
    clock: SimClock,
    /// Threads of which name, and how many times all is well before.
    plan: Mutex<Option<(&'static str, u64)>>,
}

impl PanickingClock {
    fn is_due(&self) -> bool {
        let mut plan = self.plan.lock().unwrap();
        let Some((_, left)) = plan.as_mut().filter(|(name, _)| thread::current().name() == Some(name)) else {
            return false;
        };
        let is_due = *left == 0;
        *left = left.saturating_sub(1);
        if is_due {
            *plan = None;
        }
        is_due
    }

    fn tick(&self) {
        if self.is_due() {
            // Time for others to queue up behind it.
            (0..1000).for_each(|_| thread::yield_now());
            panic!("on purpose");
        }
    }
}

impl Clock for PanickingClock {
    fn wall_ms(&self) -> u64 {
        self.tick();
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.tick();
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

struct Store {
    machine: Machine,
    clock: Arc<PanickingClock>,
    engine: Arc<Engine>,
    /// The newest acknowledged version of each key.
    acknowledged: Arc<Mutex<BTreeMap<Vec<u8>, Version>>>,
}

impl Store {
    fn open(options: Options) -> Store {
        let machine = Machine::new(1, options.clone());
        let clock = Arc::new(PanickingClock { clock: machine.clock.clone(), plan: Mutex::default() });
        let env = Env { clock: clock.clone(), ..machine.env() };
        let engine = Arc::new(Engine::open(env, &machine.dir, options).unwrap());
        Store { machine, clock, engine, acknowledged: Arc::default() }
    }

    fn panic_at(&self, thread: &'static str, times_before: u64) {
        *self.clock.plan.lock().unwrap() = Some((thread, times_before));
    }

    /// Has some threads write until they are refused; answers their results.
    fn write_until_refused(&self) -> Vec<Result<(), Error>> {
        let (told, tellings) = channel();
        for thread in 0..WRITERS {
            let (engine, told) = (self.engine.clone(), told.clone());
            let acknowledged = self.acknowledged.clone();
            let work = move || {
                let written = (1..10_000).try_for_each(|round| {
                    let one = Write::put(format!("{thread}-{}", round % 50), round * 2 + 1, 100);
                    write(&engine, std::slice::from_ref(&one))?;
                    acknowledged.lock().unwrap().insert(one.key.clone(), one.stamp().version);
                    Ok(())
                });
                told.send(written).unwrap();
            };
            thread::Builder::new().name("writer".to_owned()).spawn(work).unwrap();
        }
        drop(told);
        let mut all = Vec::new();
        loop {
            match tellings.recv_timeout(DEADLINE) {
                Ok(written) => all.push(written),
                Err(RecvTimeoutError::Disconnected) => return all,
                Err(RecvTimeoutError::Timeout) => panic!("a writer waits for ever: {all:?}"),
            }
        }
    }

    /// Writes are refused, reads go on, and the next open finds what was acknowledged.
    fn assert_refuses_until_reopened(self) {
        let Store { machine, engine, acknowledged, .. } = self;
        assert_eq!(engine.write_state(), WriteState::Poisoned);
        assert!(engine.poison_reason().is_some_and(|reason| reason.contains("panicked")));
        let refused = write(&engine, &[Write::put("more", 1, 10)]);
        assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
        let acknowledged = acknowledged.lock().unwrap();
        let holds_all = |engine: &Engine| {
            for (key, &version) in &*acknowledged {
                let cell = engine.get_cell(key).unwrap().unwrap();
                assert!(cell.stamp.version >= version, "{}", key.escape_ascii());
            }
        };
        holds_all(&engine);
        assert!(engine.close().is_err());
        drop(engine);
        machine.assert_sound("after a panic");
        holds_all(&machine.open().unwrap());
    }
}

/// The first one, or a later one, or the one that seals a memtable.
#[test]
fn a_writer_panics_that_others_wait_for() {
    for durability in [Durability::Always, Durability::Never] {
        for times_before in [0, 1, 2, 3, 7, 50] {
            let store = Store::open(tiny_options(durability));
            store.panic_at("writer", times_before);
            let told = store.write_until_refused();
            assert_eq!(told.len() as u64, WRITERS - 1, "all but the one that panicked");
            for refused in told {
                assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
            }
            store.assert_refuses_until_reopened();
        }
    }
}

/// The panic is in a group of a caller that has its own queue.
#[test]
fn a_group_of_a_caller_panics() {
    let store = Store::open(tiny_options(Durability::Always));
    let group = |timestamp| batch(&store.engine, &[Write::put("key", timestamp, 100)]).unwrap();
    store.engine.write_group(&[group(1)]).unwrap();
    store.panic_at("writer", 0);
    let (engine, second) = (store.engine.clone(), group(3));
    let writer = thread::Builder::new().name("writer".to_owned());
    assert!(writer.spawn(move || engine.write_group(&[second])).unwrap().join().is_err());
    let refused = store.engine.write_group(&[group(5)]);
    assert!(matches!(refused, Err(Error::Poisoned { .. })), "{refused:?}");
    store.assert_refuses_until_reopened();
}
