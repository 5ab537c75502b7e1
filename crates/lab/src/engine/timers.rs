use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What to do with a connection when its time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    Connect,
    EndDelay,
}

/// Alarms of connections, earliest first. An alarm belongs to one life of a connection: one that was set before the
/// socket was replaced means nothing any more.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(u64, usize, u64, Alarm)>>,
}

impl Timers {
    pub(super) fn set(&mut self, at_ns: u64, connection: usize, life: u64, alarm: Alarm) {
        self.heap.push(Reverse((at_ns, connection, life, alarm)));
    }

    pub(super) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next alarm that is due: connection, its life, and what to do.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<(usize, u64, Alarm)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((_, connection, life, alarm))| (connection, life, alarm))
    }

    pub(super) fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_order_and_not_early() {
        let mut timers = Timers::default();
        timers.set(20, 1, 0, Alarm::Connect);
        timers.set(10, 2, 7, Alarm::EndDelay);
        assert_eq!(timers.next_ns(), Some(10));
        assert_eq!(timers.take_due(9), None);
        assert_eq!(timers.take_due(25), Some((2, 7, Alarm::EndDelay)));
        assert_eq!(timers.take_due(25), Some((1, 0, Alarm::Connect)));
        assert_eq!(timers.take_due(25), None);
    }
}
