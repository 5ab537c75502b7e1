//! What a worker has no answer to when the time is over.

use super::worker::{CONNECT_NS_MAX, Worker};
use crate::stats::Unanswered;

impl Worker {
    pub(super) fn left(&self, end_ns: u64) -> Unanswered {
        let mut left = Unanswered::new();
        for (index, connection) in self.connections.iter().enumerate() {
            let turns = self.owed(index, end_ns);
            let mut count = turns.end - turns.start;
            for (due_ns, pending) in connection.pending_since() {
                left.waited_for(end_ns.saturating_sub(due_ns), pending);
                count += pending;
            }
            if count == 0 {
                continue;
            }
            if let Some(lane) = &self.lane {
                left.waited_for_turns(turns, |turn| end_ns.saturating_sub(lane.due_ns(index, turn)));
            }
            left.owed(self.silent_ns(index, end_ns), count);
        }
        left
    }

    /// How long the server let a connection wait. What waits for the generator, such as for a delay, does not wait for the
    /// server; nor is a new connection a silent one, unless it takes too long.
    fn silent_ns(&self, index: usize, end_ns: u64) -> u64 {
        let connection = &self.connections[index];
        if connection.is_waiting() && connection.has_unread() {
            return 0; // The generator was held up, not the server.
        }
        let silent_ns = connection.waiting_since_ns().map_or(0, |since_ns| end_ns.saturating_sub(since_ns));
        let is_connecting = connection.is_connecting();
        let timeout_ns = self.plan.timeout_ns;
        let max_ns = if is_connecting { CONNECT_NS_MAX.min(timeout_ns) } else { timeout_ns };
        if connection.has_failed || silent_ns >= max_ns {
            return Unanswered::FAILED_NS;
        }
        if is_connecting { 0 } else { silent_ns }
    }
}
