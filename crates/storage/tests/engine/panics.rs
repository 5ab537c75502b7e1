//! What a store does without one of its threads: it takes no writes, so that none waits for ever, or is never synced.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ladoga_env::{Clock, Env, Priority};
use ladoga_storage::{Background, Durability, Engine, Error, Options, WriteState};

use crate::support::{Machine, Write, tiny_options, write};

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

/// A clock that panics when it is asked on a thread of this name.
struct Panics {
    clock: Arc<dyn Clock>,
    on: &'static str,
}

impl Panics {
    fn look(&self) {
        assert!(thread::current().name() != Some(self.on), "on purpose");
    }
}

impl Clock for Panics {
    fn wall_ms(&self) -> u64 {
        self.look();
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.look();
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.look();
        self.clock.sleep(duration);
    }

    fn lower_thread_priority(&self, _: Priority) {
        self.look();
    }
}

/// Without the thread that flushes, or the one that compacts, writes waited for ever; without the one that syncs, they
/// were acknowledged and never synced.
#[test]
fn a_store_that_lost_a_thread_refuses_writes_and_says_which() {
    for on in ["ladoga-flush", "ladoga-compact", "ladoga-hurry", "ladoga-sync"] {
        let options = Options { background: Background::Threads, ..tiny_options(Durability::EverySecond) };
        let machine = Machine::new(1, options.clone());
        let env = machine.env();
        let env = Env { clock: Arc::new(Panics { clock: Arc::clone(&env.clock), on }), ..env };
        let (done, when_done) = channel();
        let dir = machine.dir.clone();
        thread::spawn(move || {
            let engine = Engine::open(env, &dir, options).unwrap();
            let refused = (1..).find_map(|n| write(&engine, &[Write::put("a", n, 300)]).err());
            let found = (refused, engine.write_state(), engine.poison_reason(), engine.close());
            drop(engine);
            let _ = done.send(found);
        });
        let (refused, state, reason, closed) = when_done.recv_timeout(DEADLINE).expect("an end");
        assert!(matches!(refused, Some(Error::Poisoned { .. })), "{on}: {refused:?}");
        assert_eq!((state, reason), (WriteState::Poisoned, Some(format!("the thread {on} panicked"))));
        assert!(matches!(closed, Err(Error::Poisoned { .. })), "{on}: {closed:?}");
        machine.open().unwrap().close().unwrap();
    }
}
