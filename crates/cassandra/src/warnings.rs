use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long after a line the next one may follow.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Warnings that come with answers, or with rows. Near a quota each answer has one: thousands a second. So one is logged from time to time, with how many
/// there were. The driver would log each, and is kept from it: `ladoga::logging`.
#[derive(Default)]
pub(crate) struct Warnings(Mutex<Unlogged>);

#[derive(Default)]
struct Unlogged {
    count: u64,
    last_line: Option<Instant>,
}

impl Warnings {
    pub(crate) fn log(&self, warning: &str) {
        if let Some(count) = self.due(Instant::now()) {
            tracing::warn!(warning, count, "Cassandra warned in its answers");
        }
    }

    /// Counts a warning. If it is time for a line, answers how many there were since the last one.
    pub(crate) fn due(&self, now: Instant) -> Option<u64> {
        let mut unlogged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unlogged.count += 1;
        if unlogged.last_line.is_some_and(|last| now - last < LINE_EVERY) {
            return None;
        }
        unlogged.last_line = Some(now);
        Some(std::mem::take(&mut unlogged.count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_tells_of_all_warnings_since_the_last_one() {
        let (warnings, began) = (Warnings::default(), Instant::now());
        assert_eq!(warnings.due(began), Some(1));
        for ms in 0..999 {
            assert_eq!(warnings.due(began + Duration::from_millis(ms)), None);
        }
        assert_eq!(warnings.due(began + LINE_EVERY), Some(1_000));
        assert_eq!(warnings.due(began + LINE_EVERY), None);
    }
}
