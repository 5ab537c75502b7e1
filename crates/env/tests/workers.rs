//! What every way of starting workers must do: each test runs on threads and on tasks.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ladoga_env::real::Threads;
use ladoga_env::sim::Tasks;
use ladoga_env::{Turn, Worker, Workers};
use tokio::runtime::Builder;
use tokio::task::LocalSet;
use tokio::time::sleep;

/// Takes one item in a turn, and ends after a number of turns.
struct Taker {
    there: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
    ends: Arc<AtomicUsize>,
    idle: Turn,
}

impl Worker for Taker {
    fn turn(&mut self) -> Turn {
        let took = self.there.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |there| there.checked_sub(1));
        if took.is_ok() {
            self.taken.fetch_add(1, Ordering::SeqCst);
            Turn::Again
        } else if self.ends.load(Ordering::SeqCst) > 0 {
            Turn::Over
        } else {
            self.idle
        }
    }
}

fn on_both<F: Future<Output = ()>>(test: impl Fn(Arc<dyn Workers>) -> F) {
    for workers in [Arc::new(Threads) as Arc<dyn Workers>, Arc::new(Tasks)] {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        LocalSet::new().block_on(&runtime, test(workers));
    }
}

/// Waits until the count is reached.
async fn until(count: &AtomicUsize, expected: usize) {
    while count.load(Ordering::SeqCst) < expected {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_worker_works_when_it_is_woken_and_ends_when_it_is_joined() {
    on_both(async |workers| {
        let [there, taken, ends] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let taker =
            Taker { there: there.clone(), taken: taken.clone(), ends: ends.clone(), idle: Turn::Wait };
        let handle = workers.start("taker", Box::new(taker)).unwrap();
        for round in 1..50 {
            there.fetch_add(2, Ordering::SeqCst);
            handle.wake();
            until(&taken, 2 * round).await;
        }
        there.fetch_add(3, Ordering::SeqCst);
        ends.store(1, Ordering::SeqCst);
        handle.wake();
        assert!(handle.join());
        assert_eq!(taken.load(Ordering::SeqCst), 2 * 49 + 3, "what is there is taken before the end");
        assert!(handle.join(), "it has ended");
    });
}

#[test]
fn a_worker_that_waits_for_so_long_comes_back_by_itself() {
    on_both(async |workers| {
        let [there, taken, ends] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let idle = Turn::WaitFor(Duration::from_millis(5));
        let taker = Taker { there: there.clone(), taken: taken.clone(), ends: ends.clone(), idle };
        let handle = workers.start("taker", Box::new(taker)).unwrap();
        sleep(Duration::from_millis(10)).await;
        there.fetch_add(1, Ordering::SeqCst);
        until(&taken, 1).await;
        ends.store(1, Ordering::SeqCst);
        assert!(handle.join());
    });
}

#[test]
fn the_end_of_a_simulated_process_ends_its_workers_where_they_are() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let [there, taken, ends] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let process = LocalSet::new();
    let handle = process.block_on(&runtime, async {
        let taker = Taker { there: there.clone(), taken: taken.clone(), ends, idle: Turn::Wait };
        Tasks.start("taker", Box::new(taker)).unwrap()
    });
    there.fetch_add(1, Ordering::SeqCst);
    drop(process);
    handle.wake();
    assert!(handle.join());
    assert_eq!(taken.load(Ordering::SeqCst), 0);
}
