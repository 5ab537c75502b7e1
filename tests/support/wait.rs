use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test fails. No test asserts a time: this only ends what hangs.
pub(crate) const DEADLINE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(3);

/// Asks `condition` until it gives something.
pub(crate) fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < give_up, "waited {DEADLINE:?} in vain for {what}");
        thread::park_timeout(POLL);
    }
}

/// Asks `condition` until it holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}
