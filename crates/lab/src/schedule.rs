//! When each request of an open loop is due. Pure: no clock, no sockets.
//!
//! The requests of a run are numbered in the order of their due times; number `n` is due at `n / rate` seconds and
//! belongs to connection `n mod connections`. So every connection has a fixed rate of `rate / connections`, as in
//! wrk2, and the connections are staggered evenly instead of starting in bursts.

/// Due times in nanoseconds from the start of the run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Schedule {
    rate_per_second: f64,
    connections: u64,
}

impl Schedule {
    pub(crate) fn new(rate_per_second: f64, connections: usize) -> Self {
        assert!(rate_per_second > 0.0 && rate_per_second.is_finite(), "a schedule needs a rate");
        assert!(connections > 0, "a schedule needs a connection");
        Self { rate_per_second, connections: connections as u64 }
    }

    /// When the `turn`-th request of a connection is due. Computed from the number of the request, never from the
    /// request before it, so no error adds up.
    pub(crate) fn due_ns(&self, connection: usize, turn: u64) -> u64 {
        let number = turn * self.connections + connection as u64;
        (number as f64 * 1e9 / self.rate_per_second) as u64
    }

    /// How many requests of all connections are due before `elapsed_ns`.
    pub(crate) fn due_before(&self, elapsed_ns: u64) -> u64 {
        let mut count = (elapsed_ns as f64 * self.rate_per_second / 1e9) as u64;
        // Rounding may put the estimate one off on either side.
        while count > 0 && self.of_number(count - 1) >= elapsed_ns {
            count -= 1;
        }
        while self.of_number(count) < elapsed_ns {
            count += 1;
        }
        count
    }

    fn of_number(&self, number: u64) -> u64 {
        self.due_ns((number % self.connections) as usize, number / self.connections)
    }
}

/// A search for a connection that can send is given up after so many.
const LOOKED_AT_MAX: usize = 64;

/// The connections of one thread, in the order in which they become due, for ever. Every connection has the same
/// rate, so the order never changes and no queue is needed.
#[derive(Debug, Clone)]
pub(crate) struct Lane {
    schedule: Schedule,
    /// The number of the thread's first connection; the next ones are `threads` apart.
    first: usize,
    threads: usize,
    connections: usize,
    next_connection: usize,
    next_turn: u64,
    next_due_ns: u64,
}

impl Lane {
    /// The lane of thread `thread` of `threads`, which holds `connections` of all connections.
    pub(crate) fn new(schedule: Schedule, thread: usize, threads: usize, connections: usize) -> Self {
        assert!(connections > 0 && thread < threads);
        let next_due_ns = schedule.due_ns(thread, 0);
        Self { schedule, first: thread, threads, connections, next_connection: 0, next_turn: 0, next_due_ns }
    }

    /// When the next connection becomes due.
    pub(crate) const fn next_due_ns(&self) -> u64 {
        self.next_due_ns
    }

    /// When the next connection that `can_send` becomes due; none if none of them can. A connection that cannot is looked at
    /// again once it can, so no wake-up is needed for it. Looks at a bounded number of connections: at worst the caller wakes
    /// up for nothing.
    pub(crate) fn next_due_where(&self, can_send: impl Fn(usize) -> bool) -> Option<u64> {
        let (mut connection, mut turn) = (self.next_connection, self.next_turn);
        for _ in 0..self.connections.min(LOOKED_AT_MAX) {
            if can_send(connection) {
                return Some(self.due_ns(connection, turn));
            }
            connection += 1;
            if connection == self.connections {
                (connection, turn) = (0, turn + 1);
            }
        }
        (self.connections > LOOKED_AT_MAX).then(|| self.due_ns(connection, turn))
    }

    /// Takes the connection that is due next, as its index among the thread's own.
    pub(crate) fn advance(&mut self) -> usize {
        let taken = self.next_connection;
        self.next_connection += 1;
        if self.next_connection == self.connections {
            self.next_connection = 0;
            self.next_turn += 1;
        }
        self.next_due_ns = self.due_ns(self.next_connection, self.next_turn);
        taken
    }

    /// Passes over the turns that are due before `elapsed_ns`.
    pub(crate) fn pass_over(&mut self, elapsed_ns: u64) {
        let due = self.schedule.due_before(elapsed_ns);
        let (turn, number) = (due / self.schedule.connections, (due % self.schedule.connections) as usize);
        let next = number.saturating_sub(self.first).div_ceil(self.threads);
        let next = if next < self.connections { (turn, next) } else { (turn + 1, 0) };
        if next > (self.next_turn, self.next_connection) {
            (self.next_turn, self.next_connection) = next;
            self.next_due_ns = self.due_ns(self.next_connection, self.next_turn);
        }
    }

    /// How many requests of the thread's own connection `index` are due before `elapsed_ns`.
    pub(crate) fn due_before(&self, index: usize, elapsed_ns: u64) -> u64 {
        let number = (self.first + index * self.threads) as u64;
        let all = self.schedule.due_before(elapsed_ns);
        all.saturating_sub(number).div_ceil(self.schedule.connections)
    }

    /// When the `turn`-th request of the thread's own connection `index` is due.
    pub(crate) fn due_ns(&self, index: usize, turn: u64) -> u64 {
        self.schedule.due_ns(self.first + index * self.threads, turn)
    }
}

/// How many of `connections` belong to a thread; the first threads take what does not divide.
pub(crate) const fn connections_of(thread: usize, threads: usize, connections: usize) -> usize {
    connections / threads + (thread < connections % threads) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_of_connections_add_up() {
        let lane = Lane::new(Schedule::new(1000.0, 3), 0, 1, 3);
        for ms in 0..20_u64 {
            let shares: Vec<u64> = (0..3).map(|index| lane.due_before(index, ms * 1_000_000)).collect();
            assert_eq!(shares.iter().sum::<u64>(), ms, "{shares:?}");
        }
    }

    #[test]
    fn busy_connections_wake_nobody_up() {
        let lane = |connections| Lane::new(Schedule::new(1000.0, connections), 0, 1, connections);
        assert_eq!(lane(3).next_due_where(|_| true), Some(0));
        assert_eq!(lane(3).next_due_where(|index| index == 2), Some(2_000_000));
        assert_eq!(lane(3).next_due_where(|_| false), None);
        let mut later = lane(3);
        later.advance();
        assert_eq!(later.next_due_where(|index| index == 0), Some(3_000_000), "in its next turn");
        assert_eq!(lane(100).next_due_where(|_| false), Some(64_000_000), "a long search is given up");
    }

    #[test]
    fn requests_are_due_at_even_distances() {
        let schedule = Schedule::new(20_000.0, 3);
        let due: Vec<u64> = (0..6).map(|number| schedule.of_number(number)).collect();
        assert_eq!(due, [0, 50_000, 100_000, 150_000, 200_000, 250_000]);
        // After an hour not a nanosecond is lost.
        assert_eq!(schedule.due_ns(0, 20_000 * 1_200), 3_600_000_000_000);
    }

    proptest! {
        #[test]
        fn threads_together_send_exactly_the_schedule(
            rate in 1.0_f64..5e6, connections in 1_usize..70, threads in 1_usize..9, rounds in 1_u64..20,
        ) {
            prop_assume!(threads <= connections);
            let schedule = Schedule::new(rate, connections);
            let mut sent = Vec::new();
            for thread in 0..threads {
                let own = connections_of(thread, threads, connections);
                let mut lane = Lane::new(schedule, thread, threads, own);
                let mut turns = vec![0; own];
                let mut last = 0;
                for _ in 0..rounds * own as u64 {
                    let due = lane.next_due_ns();
                    prop_assert!(due >= last, "a lane never goes back");
                    last = due;
                    let index = lane.advance();
                    prop_assert_eq!(due, lane.due_ns(index, turns[index]));
                    turns[index] += 1;
                    sent.push(due);
                }
                prop_assert!(turns.iter().all(|turn| *turn == rounds));
            }
            sent.sort_unstable();
            let expected: Vec<u64> = (0..rounds * connections as u64).map(|n| schedule.of_number(n)).collect();
            prop_assert_eq!(sent, expected);
        }

        #[test]
        fn turns_are_passed_over_up_to_a_time_and_none_behind_it(
            rate in 1.0_f64..5e7, connections in 1_usize..70, threads in 1_usize..9, us in 0_u64..10_000, advanced in 0_usize..50,
        ) {
            prop_assume!(threads <= connections);
            for thread in 0..threads {
                let own = connections_of(thread, threads, connections);
                let mut slow = Lane::new(Schedule::new(rate, connections), thread, threads, own);
                (0..advanced).for_each(|_| _ = slow.advance());
                let mut fast = slow.clone();
                fast.pass_over(us * 1_000);
                while slow.next_due_ns() < us * 1_000 {
                    slow.advance();
                }
                prop_assert_eq!((fast.next_turn, fast.next_connection), (slow.next_turn, slow.next_connection));
                prop_assert_eq!(fast.next_due_ns(), slow.next_due_ns());
            }
        }

        #[test]
        fn the_rate_is_kept_over_any_time(rate in 1.0_f64..5e6, connections in 1_usize..1000, ms in 1_u64..3_600_000) {
            let count = Schedule::new(rate, connections).due_before(ms * 1_000_000);
            let exact = rate * ms as f64 / 1000.0;
            prop_assert!((count as f64 - exact).abs() <= 1.0 + exact * 1e-9, "{} of {}", count, exact);
        }

        #[test]
        fn every_connection_has_its_share(rate in 1.0_f64..5e6, connections in 1_usize..100, turn in 0_u64..1_000_000) {
            let schedule = Schedule::new(rate, connections);
            let own_gap = 1e9 * connections as f64 / rate;
            for connection in [0, connections - 1] {
                let gap = schedule.due_ns(connection, turn + 1) - schedule.due_ns(connection, turn);
                prop_assert!((gap as f64 - own_gap).abs() <= 1.0 + own_gap * 1e-6, "{} of {}", gap, own_gap);
            }
        }

        #[test]
        fn no_connection_is_left_out(connections in 1_usize..1000, threads in 1_usize..64) {
            prop_assume!(threads <= connections);
            let shares: Vec<usize> = (0..threads).map(|t| connections_of(t, threads, connections)).collect();
            prop_assert_eq!(shares.iter().sum::<usize>(), connections);
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
