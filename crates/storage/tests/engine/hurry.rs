//! Compactions run at the lowest priority, but not for so long that writers would have to wait for them, nor do they hurry for
//! longer than that. Flushes as well.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use ladoga_env::sim::SimClock;
use ladoga_env::{Clock, Env, Priority};
use ladoga_storage::{Background, Durability, Engine, Options};

use crate::support::{Machine, Model, Write, tiny_options, write};
use crate::watched_disk::{Touch, WatchedDisk};

const MEMTABLE_BYTES: usize = 2 << 20;
/// A memtable is filled in so long: a flood of 150 MB/s.
const FLOOD_FILLS: Duration = Duration::from_millis(14);

/// What the thread that flushes takes for a read or a write.
const FLUSH_STEP: Duration = Duration::from_millis(1);

thread_local! {
    static PRIORITY: Cell<Option<Priority>> = const { Cell::new(None) };
}

/// A clock that knows of each thread how far behind others it goes.
struct Priorities(SimClock);

impl Clock for Priorities {
    fn wall_ms(&self) -> u64 {
        self.0.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.0.sleep(duration);
    }

    fn lower_thread_priority(&self, priority: Priority) {
        PRIORITY.set(Some(priority));
    }
}

/// The processor time that threads which compact get: a number of reads and writes.
struct Processor {
    left: Mutex<u64>,
    granted: Condvar,
    /// Whether one has asked for more.
    is_waited_for: AtomicBool,
    used: AtomicU64,
    used_by_hurried: AtomicU64,
    /// What the thread that hurries may use.
    allowed_to_hurried: Mutex<u64>,
    allowed: Condvar,
}

impl Processor {
    fn new(allowed_to_hurried: u64) -> Processor {
        Processor {
            left: Mutex::default(),
            granted: Condvar::new(),
            is_waited_for: AtomicBool::new(false),
            used: AtomicU64::new(0),
            used_by_hurried: AtomicU64::new(0),
            allowed_to_hurried: Mutex::new(allowed_to_hurried),
            allowed: Condvar::new(),
        }
    }

    fn allow_all(&self) {
        *self.allowed_to_hurried.lock().unwrap() = u64::MAX;
        self.allowed.notify_all();
    }

    fn grant(&self, touches: u64) {
        *self.left.lock().unwrap() += touches;
        self.granted.notify_all();
    }

    fn touch(&self, touch: Touch) {
        if thread::current().name() == Some("ladoga-hurry") {
            let allowed = self.allowed_to_hurried.lock().unwrap();
            drop(
                self.allowed
                    .wait_while(allowed, |allowed| self.used_by_hurried.load(Ordering::Relaxed) >= *allowed)
                    .unwrap(),
            );
            self.used_by_hurried.fetch_add(1, Ordering::Relaxed);
        }
        if touch == Touch::Sync || PRIORITY.get() != Some(Priority::Lowest) {
            return;
        }
        let left = self.left.lock().unwrap();
        self.is_waited_for.store(true, Ordering::Relaxed);
        *self.granted.wait_while(left, |left| *left == 0).unwrap() -= 1;
        self.used.fetch_add(1, Ordering::Relaxed);
    }
}

/// Goes before the engine, which waits for its threads.
struct Granting(Arc<Processor>);

impl Drop for Granting {
    fn drop(&mut self) {
        self.0.grant(u64::MAX / 2);
        self.0.allow_all();
    }
}

fn open(allowed_to_hurried: u64) -> (Machine, Engine, Granting) {
    let options = Options {
        background: Background::Threads,
        memtable_bytes: Some(MEMTABLE_BYTES),
        first_segment_bytes: Some(u64::MAX),
        table_bytes: Some(64 << 10),
        level_1_bytes: Some(64 << 20),
        ..tiny_options(Durability::Never)
    };
    let machine = Machine::new(1, options.clone());
    let processor = Arc::new(Processor::new(allowed_to_hurried));
    let (watch, clock) = (processor.clone(), machine.clock.clone());
    let disk = WatchedDisk::watched(machine.env().disk, move |touch| {
        if thread::current().name() == Some("ladoga-flush") {
            clock.advance(FLUSH_STEP);
        }
        watch.touch(touch);
    });
    let env = Env { disk, clock: Arc::new(Priorities(machine.clock.clone())), ..machine.env() };
    let engine = Engine::open(env, &machine.dir, options).unwrap();
    (machine, engine, Granting(processor))
}

/// Waits for the background; fails if it stands still.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = ladoga_env::real::env().unwrap().clock;
    let begun_ns = started.monotonic_ns();
    while !is_so() {
        assert!(started.monotonic_ns() - begun_ns < 90_000_000_000, "never {what}");
        thread::yield_now();
    }
}

/// Writes a part of a memtable that is full by 128 of them.
fn put(engine: &Engine, round: u64, count: u64, model: &mut Model) {
    for n in 0..count {
        let writes = [Write::put(format!("key-{:04}", n * 7), 1 + round * 1000 + n, MEMTABLE_BYTES / 128)];
        write(engine, &writes).unwrap();
        model.apply(&writes);
    }
}

/// Writes one table of level 0, as fast as a flood does.
fn add_table(machine: &Machine, engine: &Engine, round: u64, model: &mut Model) {
    let flushed = engine.statistics().flushes;
    put(engine, round, 100, model);
    machine.clock.advance(FLOOD_FILLS);
    engine.seal().unwrap();
    wait_until("flushed", || engine.statistics().flushes > flushed);
}

#[test]
fn a_compaction_that_gets_no_processor_is_gone_on_with_by_another_thread_before_writers_wait() {
    let (machine, engine, processor) = open(u64::MAX);
    let mut model = Model::default();
    // The fourth table begins a compaction, which makes no progress from then on.
    for round in 0..8 {
        add_table(&machine, &engine, round, &mut model);
    }
    assert_eq!(engine.statistics().compactions, 0);
    // It begins with a look at each of its tables.
    processor.0.grant(100);
    wait_until("compacted", || engine.statistics().compactions > 0);
    assert!(processor.0.used_by_hurried.load(Ordering::Relaxed) > 100, "it was not handed over");
    assert_eq!(engine.statistics().slowed_ns, 0);
    model.assert_held_by(&engine, 0, "handed over");
    drop(processor);
    engine.close().unwrap();
    drop(engine);
    machine.assert_sound("closed");
}

#[test]
fn a_compaction_that_nobody_will_wait_for_is_left_to_the_thread_that_lets_everybody_go_first() {
    let (machine, engine, processor) = open(u64::MAX);
    processor.0.grant(u64::MAX / 2);
    let mut model = Model::default();
    for round in 0..4 {
        add_table(&machine, &engine, round, &mut model);
    }
    wait_until("compacted", || engine.statistics().compactions > 0);
    model.assert_held_by(&engine, 0, "compacted");
    assert!(processor.0.used.load(Ordering::Relaxed) > 100);
    assert_eq!(processor.0.used_by_hurried.load(Ordering::Relaxed), 0);
}

#[test]
fn a_hurry_ends_with_the_flood_and_the_other_thread_goes_on_with_its_compaction() {
    const BEGINNING: u64 = 20;
    let (machine, engine, processor) = open(BEGINNING);
    let mut model = Model::default();
    for round in 0..8 {
        add_table(&machine, &engine, round, &mut model);
    }
    // The one that was begun is handed over.
    processor.0.grant(100);
    wait_until("hurried", || processor.0.used_by_hurried.load(Ordering::Relaxed) == BEGINNING);
    // No flush for as long as eight took, and then one: the flood is over.
    machine.clock.advance(Duration::from_secs(10));
    add_table(&machine, &engine, 8, &mut model);
    assert_eq!(engine.statistics().compactions, 0);
    let used = processor.0.used.load(Ordering::Relaxed);
    processor.0.allow_all();
    processor.0.grant(u64::MAX / 4);
    wait_until("compacted", || engine.statistics().compactions > 0);
    let [by_patient, by_hurried] =
        [&processor.0.used, &processor.0.used_by_hurried].map(|used| used.load(Ordering::Relaxed));
    assert!(
        by_patient > used + 100 && by_hurried < BEGINNING + 20,
        "{used}, then {by_patient}, {by_hurried}"
    );
    model.assert_held_by(&engine, 0, "handed back");
    drop(processor);
    engine.close().unwrap();
    drop(engine);
    machine.assert_sound("closed");
}

/// Writes a table of level 0, which tells how long a flush takes, and has another memtable sealed that took long to be filled.
fn seal_with_time(machine: &Machine, engine: &Engine, model: &mut Model) {
    add_table(machine, engine, 0, model);
    put(engine, 1, 100, model);
    machine.clock.advance(Duration::from_secs(10));
    engine.seal().unwrap();
}

#[test]
fn a_flush_that_nobody_will_wait_for_is_left_to_the_thread_that_lets_everybody_go_first() {
    let (machine, engine, processor) = open(u64::MAX);
    let mut model = Model::default();
    seal_with_time(&machine, &engine, &mut model);
    wait_until("begun", || processor.0.is_waited_for.load(Ordering::Relaxed));
    assert_eq!(engine.statistics().flushes, 1);
    processor.0.grant(u64::MAX / 4);
    wait_until("flushed", || engine.statistics().flushes == 2);
    assert!(processor.0.used.load(Ordering::Relaxed) > 1);
    assert_eq!(engine.statistics().compactions, 0);
    model.assert_held_by(&engine, 0, "flushed");
    drop(processor);
    engine.close().unwrap();
    drop(engine);
    machine.assert_sound("closed");
}

#[test]
fn a_flush_that_gets_no_processor_is_begun_anew_by_another_thread_before_writers_wait() {
    let (machine, engine, processor) = open(u64::MAX);
    let mut model = Model::default();
    seal_with_time(&machine, &engine, &mut model);
    wait_until("begun", || processor.0.is_waited_for.load(Ordering::Relaxed));
    // The next memtable becomes half full.
    put(&engine, 2, 64, &mut model);
    wait_until("flushed", || engine.statistics().flushes == 2);
    assert_eq!(processor.0.used.load(Ordering::Relaxed), 0);
    assert_eq!(engine.statistics().slowed_ns, 0);
    model.assert_held_by(&engine, 0, "flushed");
    // What the first has written is of no use, and is removed. A value that is newer than that stays.
    processor.0.grant(u64::MAX / 4);
    put(&engine, 3, 50, &mut model);
    engine.seal().unwrap();
    wait_until("flushed again", || engine.statistics().flushes == 3);
    model.assert_held_by(&engine, 0, "flushed again");
    drop(processor);
    engine.close().unwrap();
    drop(engine);
    machine.assert_sound("closed");
}
