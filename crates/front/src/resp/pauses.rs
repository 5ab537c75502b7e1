use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ladoga_service::{Error, StoreError};

/// How long a request waits for room in the queues of the store, at most. What may be queued takes far less.
const WAIT_MS_MAX: u64 = 2_000;
/// The first pause, and the longest; each is twice as long as the one before.
const PAUSE_MS_MIN: u64 = 1;
const PAUSE_MS_MAX: u64 = 32;

/// Whether a queue of the store is full, so that nothing was done.
pub(super) const fn is_full(error: &Error) -> bool {
    matches!(error, Error::Store(StoreError::OverCapacity { .. }))
}

/// The pauses of a request that finds the queues of the store full.
///
/// By HTTP it would be refused, and the client told to come back later. A client of Redis has sent what follows already, and sees a
/// reply that comes later as what it is: its requests are read no faster than they are served.
pub(super) struct Pauses {
    waited_ms: u64,
    pause_ms: u64,
    paused: Rc<Cell<u64>>,
    is_counted: bool,
}

impl Pauses {
    /// `paused` counts the requests of an event loop that pause.
    pub(super) fn new(paused: &Rc<Cell<u64>>) -> Pauses {
        Pauses { waited_ms: 0, pause_ms: PAUSE_MS_MIN, paused: Rc::clone(paused), is_counted: false }
    }

    /// Waits for a moment. Answers false, at once, if it has waited for long enough.
    pub(super) async fn wait(&mut self) -> bool {
        if self.waited_ms >= WAIT_MS_MAX {
            return false;
        }
        if !self.is_counted {
            self.is_counted = true;
            self.paused.set(self.paused.get() + 1);
        }
        tokio::time::sleep(Duration::from_millis(self.pause_ms)).await;
        self.waited_ms += self.pause_ms;
        self.pause_ms = (2 * self.pause_ms).min(PAUSE_MS_MAX);
        true
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        if self.is_counted {
            self.paused.set(self.paused.get() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_counted_while_it_pauses_and_gives_up_in_the_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let paused = Rc::new(Cell::new(0));
            let mut pauses = Pauses::new(&paused);
            assert_eq!(paused.get(), 0);
            let mut count = 0;
            while pauses.wait().await {
                assert_eq!(paused.get(), 1);
                count += 1;
            }
            assert!(count > 20 && pauses.waited_ms >= WAIT_MS_MAX, "{count}");
            drop(pauses);
            assert_eq!(paused.get(), 0);
        });
    }
}
