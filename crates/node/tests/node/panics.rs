use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use ladoga_node::{Limits, Node, StopError};
use tokio::runtime::Builder;

use crate::running::Running;
use crate::scripted::{Script, Scripted};

/// Longer than anything takes that does not hang.
const DEADLINE: Duration = Duration::from_secs(90);

/// A clock that panics when the second event loop asks it.
struct Panics {
    clock: RealClock,
    is_armed: AtomicBool,
    asked: AtomicUsize,
}

impl Panics {
    fn new(is_armed: bool) -> Arc<Panics> {
        Arc::new(Panics {
            clock: RealClock::new(),
            is_armed: AtomicBool::new(is_armed),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Clock for Panics {
    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        if thread::current().name() == Some("event-loop-1") {
            self.asked.fetch_add(1, Ordering::SeqCst);
            assert!(!self.is_armed.load(Ordering::SeqCst), "on purpose");
        }
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration);
    }
}

fn panic_of(node: &Node<Scripted>) -> String {
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let panicked = runtime.block_on(async { tokio::time::timeout(DEADLINE, node.panicked()).await });
    panicked.expect("a panic that is told").to_string()
}

/// The node went on without it, and stopped as if all had been well.
#[test]
fn a_node_that_lost_an_event_loop_says_so_and_drains_the_others() {
    let running = Running::opening_by(Panics::new(true), Limits::default());
    running.node.open(Arc::clone(&running.store));
    let told = panic_of(&running.node);
    assert_eq!(told, "the thread event-loop-1 panicked (on purpose)");
    running.store.tell(Script { holds: true, ..Script::default() });
    let mut in_flight = running.connect();
    in_flight.send_put("k", b"value");
    while running.store.value("k").is_none() {
        thread::yield_now();
    }
    let Running { node, store } = running;
    let stopping = thread::spawn(move || node.stop());
    store.release();
    assert_eq!(in_flight.answer().status, 201);
    assert_eq!(in_flight.rest(), (Vec::new(), true));
    let stopped = stopping.join().expect("no panic").expect_err("a failure");
    assert_eq!(
        stopped.to_string(),
        format!("{told}; the node stopped, and all acknowledged writes are on disk")
    );
}

/// Connections that had timed out were no longer ended.
#[test]
fn a_node_that_lost_what_looks_after_an_event_loop_says_so() {
    let clock = Panics::new(false);
    let running = Running::opening_by(Arc::clone(&clock) as Arc<dyn Clock>, Limits::default());
    running.node.open(Arc::clone(&running.store));
    // Once by the loop as it begins, then by the task.
    while clock.asked.load(Ordering::SeqCst) < 2 {
        thread::yield_now();
    }
    clock.is_armed.store(true, Ordering::SeqCst);
    assert_eq!(panic_of(&running.node), "the task 'sweep' of event-loop-1 panicked (on purpose)");
    clock.is_armed.store(false, Ordering::SeqCst);
    assert!(matches!(running.node.stop(), Err(StopError::Panicked(_))));
}
