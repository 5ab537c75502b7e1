/// Due times in nanoseconds from the start.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    rate: f64,
    connections: u64,
    count: u64,
}

impl Schedule {
    /// `rate` requests a second over `duration_ns`, dealt out to `connections` one after the other.
    pub(super) fn new(rate: f64, connections: usize, duration_ns: u64) -> Self {
        assert!(rate > 0.0 && connections > 0, "a schedule needs a rate and a connection");
        let count = (duration_ns as f64 * rate / 1e9) as u64;
        Self { rate, connections: connections as u64, count }
    }

    /// How many requests there are.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// When a request is due.
    pub(super) fn due_ns(&self, index: u64) -> u64 {
        (index as f64 * 1e9 / self.rate) as u64
    }

    /// How many of a connection's requests are among the first `released`.
    pub(super) const fn released_to(&self, connection: usize, released: u64) -> u64 {
        (released + self.connections - 1 - connection as u64) / self.connections
    }

    /// The index of the `turn`-th request of a connection.
    pub(super) const fn index_of(&self, connection: usize, turn: u64) -> u64 {
        turn * self.connections + connection as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_due_at_even_distances() {
        let schedule = Schedule::new(20_000.0, 3, 1_000_000_000);
        assert_eq!(schedule.count(), 20_000);
        assert_eq!((0..3).map(|index| schedule.due_ns(index)).collect::<Vec<_>>(), [0, 50_000, 100_000]);
        // No error adds up over a long run.
        assert_eq!(schedule.due_ns(20_000 * 3_600), 3_600_000_000_000);
    }

    #[test]
    fn every_request_belongs_to_one_connection() {
        let schedule = Schedule::new(1000.0, 3, 1_000_000_000);
        for released in 0..20 {
            let mut indexes: Vec<u64> = (0..3)
                .flat_map(|connection| {
                    let turns = schedule.released_to(connection, released);
                    (0..turns).map(move |turn| schedule.index_of(connection, turn))
                })
                .collect();
            indexes.sort_unstable();
            assert!(indexes.into_iter().eq(0..released), "{released}");
        }
    }
}
