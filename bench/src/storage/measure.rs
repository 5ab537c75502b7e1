use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Store, VALUE_BYTES, key};
use crate::dataset::Dataset;
use crate::random::{Random, Scattered};
use crate::stop::{Outcome, Stop, failed};

/// How often a timed thread looks at the clock.
const CLOCK_EVERY: u64 = 16;

/// What a loop did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
}

impl Rate {
    pub(crate) fn per_second(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }
}

/// Every key once, in scattered order, by one thread.
pub(crate) fn fill(store: &dyn Store, records: u64) -> Outcome<Rate> {
    let (dataset, order) = (Dataset::new(VALUE_BYTES), Scattered::new(records));
    let started = Instant::now();
    for step in 0..records {
        let number = order.at(step);
        store.put(&key(number), dataset.value(number))?;
    }
    Ok(Rate { operations: records, elapsed: started.elapsed() })
}

/// Reads every key once, so that caches have what they can hold.
pub(crate) fn warm(store: &dyn Store, records: u64) -> Outcome {
    (0..records).try_for_each(|number| read(store, number))
}

/// Random keys, `reads` by each thread. A miss is a failure.
pub(crate) fn get(store: &dyn Store, records: u64, threads: u64, reads: u64) -> Outcome<Rate> {
    let started = Instant::now();
    on_threads(threads, |thread| {
        let mut random = Random::new(1000 + thread);
        (0..reads).try_for_each(|_| read(store, random.below(records)))?;
        Ok(reads)
    })
    .map(|operations| Rate { operations, elapsed: started.elapsed() })
}

/// Puts of random keys by so many threads, for so long.
pub(crate) fn put_for(store: &dyn Store, records: u64, threads: u64, duration: Duration) -> Outcome<Rate> {
    let dataset = Dataset::new(VALUE_BYTES);
    let over = AtomicBool::new(false);
    let started = Instant::now();
    on_threads(threads, |thread| {
        let mut random = Random::new(2000 + thread);
        let mut operations = 0;
        while !over.load(Ordering::Relaxed) {
            for _ in 0..CLOCK_EVERY {
                let number = random.below(records);
                store.put(&key(number), dataset.value(number))?;
            }
            operations += CLOCK_EVERY;
            if started.elapsed() >= duration {
                over.store(true, Ordering::Relaxed);
            }
        }
        Ok(operations)
    })
    .map(|operations| Rate { operations, elapsed: started.elapsed() })
}

fn read(store: &dyn Store, number: u64) -> Outcome {
    match store.get(&key(number))? {
        Some(VALUE_BYTES) => Ok(()),
        Some(length) => failed(format!("record {number} has {length} bytes, expected {VALUE_BYTES}")),
        None => failed(format!("record {number} is missing: a miss is no read")),
    }
}

/// Runs `work` on each thread; the sum of what they answer.
fn on_threads(threads: u64, work: impl Fn(u64) -> Outcome<u64> + Sync) -> Outcome<u64> {
    if threads == 1 {
        return work(0);
    }
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        running
            .into_iter()
            .map(|thread| {
                thread.join().map_err(|_| Stop::Failed("a measuring thread panicked".to_owned()))?
            })
            .sum()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;

    #[derive(Default)]
    struct InMemory(Mutex<HashMap<Vec<u8>, usize>>);

    impl Store for InMemory {
        fn put(&self, key: &[u8], value: &[u8]) -> Outcome {
            self.0.lock().expect("nobody panics").insert(key.to_vec(), value.len());
            Ok(())
        }

        fn get(&self, key: &[u8]) -> Outcome<Option<usize>> {
            Ok(self.0.lock().expect("nobody panics").get(key).copied())
        }

        fn close(self: Box<Self>) -> Outcome {
            Ok(())
        }
    }

    #[test]
    fn reads_find_what_a_fill_has_written_and_a_miss_fails() {
        let store = InMemory::default();
        assert_eq!(fill(&store, 100).map(|rate| rate.operations), Ok(100));
        assert_eq!(warm(&store, 100), Ok(()));
        assert_eq!(get(&store, 100, 2, 50).map(|rate| rate.operations), Ok(100));
        assert!(matches!(get(&store, 200, 1, 100), Err(Stop::Failed(reason)) if reason.contains("missing")));
        let rate = put_for(&store, 100, 3, Duration::from_millis(5)).expect("memory takes all");
        assert!(rate.operations >= 3 * CLOCK_EVERY);
    }
}
