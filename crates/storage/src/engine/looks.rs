use std::cell::Cell;
use std::time::Duration;

use ladoga_env::Clock;

/// Records between two looks: less than a tenth of a millisecond.
const RECORDS: u32 = 32;

/// What works in turns does so for as long before it rests: an event loop that it keeps from its core is late by no more.
const TURN: Duration = Duration::from_millis(1);

/// When work in the background looks at what goes on beside it: with the first record, and with many after that.
#[derive(Default)]
pub(super) struct Looks {
    records: Cell<u32>,
}

impl Looks {
    /// With each record.
    pub(super) fn is_due(&self) -> bool {
        let records = self.records.get();
        self.records.set((records + 1) % RECORDS);
        records == 0
    }
}

/// Work for a part of the time.
pub(super) struct Turns<'a> {
    clock: &'a dyn Clock,
    began_ns: Cell<u64>,
}

impl Turns<'_> {
    pub(super) fn new(clock: &dyn Clock) -> Turns<'_> {
        Turns { clock, began_ns: Cell::new(clock.monotonic_ns()) }
    }

    /// Rests after a turn, so that what is left is that part of the time. With nothing and with all of it there is no rest.
    pub(super) fn rest(&self, thousandths: u64) {
        let worked_ns = self.clock.monotonic_ns() - self.began_ns.get();
        if worked_ns >= TURN.as_nanos() as u64 && (1..1000).contains(&thousandths) {
            let rest = Duration::from_nanos(TURN.as_nanos() as u64 * (1000 - thousandths) / thousandths);
            self.clock.sleep(rest);
            self.began_ns.set(self.clock.monotonic_ns());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ladoga_env::sim::SimClock;

    #[test]
    fn work_gets_its_part_of_the_time() {
        for (thousandths, all_ms) in [(0, 100), (200, 500), (500, 200), (999, 100), (1000, 100)] {
            let clock = SimClock::new();
            let begun_ns = clock.monotonic_ns();
            let turns = Turns::new(&clock);
            for _ in 0..1000 {
                clock.advance(Duration::from_micros(100));
                turns.rest(thousandths);
            }
            assert_eq!((clock.monotonic_ns() - begun_ns) / 1_000_000, all_ms, "{thousandths}");
        }
    }
}
