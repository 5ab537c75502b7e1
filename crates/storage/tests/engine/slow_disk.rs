//! A disk that takes its time: what a sync took and how long writers waited is what the statistics say.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ladoga_env::sim::{Operation, SimClock};
use ladoga_env::{Clock, Env, Priority};
use ladoga_storage::{Durability, Engine, Options};

use crate::support::{Machine, Write, tiny_options, write};

const SYNC: Duration = Duration::from_millis(7);

fn machine(durability: Durability) -> Machine {
    let machine = Machine::new(1, Options { memtable_bytes: Some(16 << 10), ..tiny_options(durability) });
    machine.disk.set_latency(Operation::Sync, SYNC);
    machine
}

#[test]
fn each_sync_of_the_log_is_counted_with_its_time() {
    for (durability, syncs) in [(Durability::Always, 5), (Durability::EverySecond, 1)] {
        let machine = machine(durability);
        let engine = machine.open().unwrap();
        for n in 1..=5 {
            write(&engine, &[Write::put("key", n, 10)]).unwrap();
        }
        engine.sync().unwrap();
        let told = engine.statistics().syncs;
        assert_eq!((told.count(), told.sum_ns), (syncs, syncs * SYNC.as_nanos() as u64), "{durability:?}");
        assert_eq!(told.buckets.iter().rposition(|&count| count > 0), Some(9), "5 to 10 ms: {told:?}");
    }
}

#[test]
fn writers_that_a_slow_disk_holds_up_are_slowed_and_wait_as_long_as_the_statistics_say() {
    let machine = machine(Durability::Never);
    let engine = machine.open().unwrap();
    let began = machine.clock.monotonic_ns();
    // Only the writer that waits for a flush does one.
    for n in 0..400 {
        write(&engine, &[Write::put(format!("key-{n:03}"), 1 + n, 400)]).unwrap();
    }
    let statistics = engine.statistics();
    let waited_ns = statistics.stalls.sum_ns + statistics.slowed_ns;
    assert!(statistics.flushes > 3 && statistics.stalls.count() == statistics.flushes, "{statistics:?}");
    assert!(statistics.stalls.sum_ns >= statistics.flushes * SYNC.as_nanos() as u64, "{statistics:?}");
    assert!(statistics.slowed_ns > 0, "{statistics:?}");
    // What is left is the syncs of new segments, which are made in the writer's time here.
    let elapsed_ns = machine.clock.monotonic_ns() - began;
    assert!(
        waited_ns <= elapsed_ns && elapsed_ns - waited_ns <= statistics.flushes * SYNC.as_nanos() as u64 * 2
    );
}

/// By how much a sleep takes longer than it should; on Linux, for a thread like any other.
const OVERSLEPT: Duration = Duration::from_micros(50);

struct Oversleeps {
    clock: SimClock,
    asked: Mutex<Vec<Duration>>,
}

impl Clock for Oversleeps {
    fn wall_ms(&self) -> u64 {
        self.clock.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.clock.monotonic_ns()
    }

    fn sleep(&self, duration: Duration) {
        self.asked.lock().unwrap().push(duration);
        self.clock.sleep(duration + OVERSLEPT);
    }

    fn lower_thread_priority(&self, _priority: Priority) {}
}

/// Each of them slept for its own microsecond, which took fifty.
#[test]
fn small_groups_pay_together_for_how_much_they_are_slowed_down() {
    // Slowed down only by what waits for the first flush.
    let options = Options { memtable_bytes: Some(64 << 10), ..tiny_options(Durability::Never) };
    let machine = Machine::new(1, options);
    let clock = Arc::new(Oversleeps { clock: machine.clock.clone(), asked: Mutex::default() });
    let env = Env { clock: clock.clone(), ..machine.env() };
    let engine = Engine::open(env, &machine.dir, machine.options.clone()).unwrap();
    for n in 0..2000 {
        write(&engine, &[Write::put(format!("key-{n:04}"), 1 + n, 20)]).unwrap();
    }
    let asked = clock.asked.lock().unwrap().clone();
    assert!(asked.iter().all(|&asked| asked > 4 * OVERSLEPT), "{asked:?}");
    let slept = asked.iter().map(|&asked| asked + OVERSLEPT).sum::<Duration>();
    assert_eq!(u128::from(engine.statistics().slowed_ns), slept.as_nanos());
    assert!((1..200).contains(&asked.len()), "{asked:?}");
}
