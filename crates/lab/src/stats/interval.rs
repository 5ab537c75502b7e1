use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::class::ERROR_KINDS;
use super::latencies::{add, ns_histogram};

/// How long an interval is: the columns of a heat map are made of them.
pub(crate) const INTERVAL_NS: u64 = 100_000_000;
/// How many of them are a row of the time series.
const INTERVALS_A_SECOND: u64 = 10;
/// An interval is held for so many more intervals, until the requests that were due in it have ended: so a standstill shows
/// when it was, not later. Requests that wait even longer are counted in the oldest interval that is held.
pub(crate) const INTERVALS_HELD: usize = 30;
pub(crate) const SECOND_NS: u64 = INTERVAL_NS * INTERVALS_A_SECOND;
/// The same in seconds.
pub(crate) const HELD_S: u64 = INTERVALS_HELD as u64 / INTERVALS_A_SECOND;

/// What one thread saw in one interval. Threads hand them over whole and get empty ones back, so that nothing is
/// merged or cleared on the thread that keeps the schedule.
#[derive(Debug)]
pub(crate) struct Interval {
    /// Its number from the start of the run.
    pub(crate) number: u64,
    /// The last one of a thread is cut off by the end of the run.
    pub(crate) length_ns: u64,
    /// Of requests that were due in it.
    pub(crate) latencies: Histogram<u64>,
    /// Answers that came in it, and what ended in it with an error, by kind: as an answer, or without one.
    pub(crate) answered: u64,
    pub(crate) errors: [u64; ERROR_KINDS.len()],
    /// Its thread has ended, and delivers no other.
    pub(crate) is_last: bool,
}

impl Interval {
    pub(crate) fn new() -> Self {
        Self {
            number: 0,
            length_ns: INTERVAL_NS,
            latencies: ns_histogram(),
            answered: 0,
            errors: Default::default(),
            is_last: false,
        }
    }

    /// A sum of none yet.
    fn without_length(number: u64) -> Self {
        Self { number, length_ns: 0, ..Self::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.latencies.reset();
        self.length_ns = INTERVAL_NS;
        self.answered = 0;
        self.errors = Default::default();
        self.is_last = false;
    }

    fn is_empty(&self) -> bool {
        self.answered == 0 && self.errors.iter().all(|count| *count == 0) && self.latencies.is_empty()
    }

    fn add_errors(&mut self, errors: [u64; ERROR_KINDS.len()]) {
        self.errors.iter_mut().zip(errors).for_each(|(sum, more)| *sum += more);
    }
}

/// One second of all threads.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Second {
    pub(crate) number: u64,
    /// The last one of a run is cut off by its end.
    pub(crate) length_ns: u64,
    /// Answers that came in it, and what ended in it with an error: as an answer, or without one.
    pub(crate) completed: u64,
    pub(crate) errors: u64,
    /// By [`ERROR_KINDS`].
    pub(crate) errors_by_kind: [u64; ERROR_KINDS.len()],
    /// Of requests that were due in it, in nanoseconds; none if there were none.
    pub(crate) percentiles_ns: Option<[u64; 4]>,
}

impl Second {
    /// Of [`Second::percentiles_ns`].
    pub(crate) const PERCENTILES: [f64; 4] = [50.0, 99.0, 99.9, 100.0];

    pub(crate) const fn is_whole(&self) -> bool {
        self.length_ns == SECOND_NS
    }
}

/// What all threads have delivered.
#[derive(Debug)]
pub(crate) enum Over {
    /// An interval, with its number and its latencies.
    Interval(u64, Histogram<u64>),
    /// A second, after its last interval.
    Second(Second, Histogram<u64>),
}

/// Puts the intervals of the threads together.
#[derive(Debug)]
pub(crate) struct Seconds {
    threads: usize,
    /// The last interval of each thread that has ended: a script can end one long before the others.
    ended: Vec<u64>,
    /// Intervals that not every thread has delivered yet.
    open: BTreeMap<u64, (usize, Interval)>,
    /// The second that is not over yet; its number counts seconds.
    second: Interval,
}

impl Seconds {
    pub(crate) fn new(threads: usize) -> Self {
        Self { threads, ended: Vec::new(), open: BTreeMap::new(), second: Interval::without_length(0) }
    }

    /// Adds a thread's interval; returns the intervals that this completes: if it is its last one, also later ones, which have
    /// waited for it.
    pub(crate) fn add(&mut self, interval: &Interval) -> Vec<Over> {
        let number = interval.number;
        let (delivered, merged) =
            self.open.entry(number).or_insert_with(|| (0, Interval::without_length(number)));
        *delivered += 1;
        merged.length_ns = merged.length_ns.max(interval.length_ns);
        merged.add_errors(interval.errors);
        merged.answered += interval.answered;
        add(&mut merged.latencies, &interval.latencies);
        if interval.is_last {
            self.ended.push(number);
        }
        // Threads deliver in order, so intervals are completed in order.
        let mut over = Vec::new();
        while let Some(merged) = self.take_whole() {
            over.extend(self.close(merged));
        }
        over
    }

    /// The first open interval, if every thread that lived then has delivered it.
    fn take_whole(&mut self) -> Option<Interval> {
        let first = self.open.first_entry()?;
        let ended = self.ended.iter().filter(|last| **last < *first.key()).count();
        (first.get().0 + ended == self.threads).then(|| first.remove().1)
    }

    /// What some thread never delivered, because it stopped early, and the second that was not over; but not if nothing happened in it:
    /// a part of a second would look like a standstill of a whole one.
    pub(crate) fn finish(mut self) -> Vec<Over> {
        let rest = std::mem::take(&mut self.open);
        let mut over: Vec<Over> = rest.into_values().flat_map(|(_, merged)| self.close(merged)).collect();
        if self.second.number == 0 || !self.second.is_empty() {
            let (second, latencies) = close_second(self.second);
            over.push(Over::Second(second, latencies));
        }
        over
    }

    fn close(&mut self, merged: Interval) -> Vec<Over> {
        let mut over = Vec::new();
        let number = merged.number / INTERVALS_A_SECOND;
        while self.second.number < number {
            let next = Interval::without_length(self.second.number + 1);
            let over_second = Interval { length_ns: SECOND_NS, ..std::mem::replace(&mut self.second, next) };
            let (second, latencies) = close_second(over_second);
            over.push(Over::Second(second, latencies));
        }
        self.second.length_ns = merged.number % INTERVALS_A_SECOND * INTERVAL_NS + merged.length_ns;
        self.second.add_errors(merged.errors);
        self.second.answered += merged.answered;
        add(&mut self.second.latencies, &merged.latencies);
        over.push(Over::Interval(merged.number, merged.latencies));
        if (merged.number + 1).is_multiple_of(INTERVALS_A_SECOND) {
            let next = Interval::without_length(number + 1);
            let (second, latencies) = close_second(std::mem::replace(&mut self.second, next));
            over.push(Over::Second(second, latencies));
        }
        over
    }
}

fn close_second(interval: Interval) -> (Second, Histogram<u64>) {
    let latencies = interval.latencies;
    let percentiles =
        (!latencies.is_empty()).then(|| Second::PERCENTILES.map(|p| latencies.value_at_percentile(p)));
    let second = Second {
        number: interval.number,
        length_ns: interval.length_ns,
        completed: interval.answered,
        errors: interval.errors.iter().sum(),
        errors_by_kind: interval.errors,
        percentiles_ns: percentiles,
    };
    (second, latencies)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds_of(over: &[Over]) -> Vec<Second> {
        let second = |over: &Over| match over {
            Over::Second(second, _) => Some(*second),
            Over::Interval(..) => None,
        };
        over.iter().filter_map(second).collect()
    }

    #[test]
    fn a_second_is_whole_when_every_thread_delivered_its_intervals() {
        let mut seconds = Seconds::new(2);
        let mut interval = Interval::new();
        interval.latencies.record(1000).unwrap();
        interval.errors = [0, 1, 0];
        interval.answered = 1;
        let mut over = Vec::new();
        for number in 0..10 {
            interval.number = number;
            assert!(seconds.add(&interval).is_empty(), "the other thread is not there yet");
            over.extend(seconds.add(&interval));
        }
        assert_eq!(
            over.iter().filter(|over| matches!(over, Over::Interval(_, all) if all.len() == 2)).count(),
            10
        );
        let whole = seconds_of(&over);
        assert_eq!((whole.len(), whole[0].number, whole[0].completed, whole[0].errors), (1, 0, 20, 20));
        assert_eq!(whole[0].errors_by_kind, [0, 20, 0]);
        (interval.number, interval.answered) = (10, 3);
        assert!(seconds.add(&interval).is_empty());
        let rest = seconds_of(&seconds.finish());
        assert_eq!((rest.len(), rest[0].number, rest[0].completed), (1, 1, 3));
    }

    /// The intervals after a thread's end stayed open until the run's: 3 MB of them in each second.
    #[test]
    fn a_thread_that_has_ended_is_not_waited_for() {
        let mut seconds = Seconds::new(3);
        let mut add = |number: u64, is_last: bool| {
            let interval = Interval { number, answered: 1, is_last, ..Interval::new() };
            let number = |over: &Over| match over {
                Over::Interval(number, _) => Some(*number),
                Over::Second(..) => None,
            };
            seconds.add(&interval).iter().filter_map(number).collect::<Vec<u64>>()
        };
        // One thread is ahead, another ends with interval 1, and the third is slow.
        (0..5).for_each(|number| assert!(add(number, false).is_empty()));
        assert!(add(0, false).is_empty());
        assert_eq!(add(0, false), [0]);
        assert!(add(1, true).is_empty(), "the slow one is not there yet");
        assert_eq!((1..5).flat_map(|number| add(number, false)).collect::<Vec<_>>(), [1, 2, 3, 4]);
        // The one that was ahead delivers three more, then the slow one ends.
        (5..8).for_each(|number| assert!(add(number, false).is_empty()));
        assert_eq!(add(5, true), [5, 6, 7]);
        assert_eq!(add(8, true), [8]);
        assert!(seconds.open.is_empty());
    }

    #[test]
    fn a_second_that_has_hardly_begun_is_not_one_in_which_nothing_completed() {
        let mut seconds = Seconds::new(1);
        let mut over = Vec::new();
        for number in 0..21 {
            over.extend(seconds.add(&Interval { number, ..Interval::new() }));
        }
        over.extend(seconds.finish());
        let completed: Vec<_> =
            seconds_of(&over).iter().map(|second| (second.number, second.completed)).collect();
        assert_eq!(completed, [(0, 0), (1, 0)], "the server stood still for two seconds, and not for three");
    }

    /// The half second at the end of a run was told as a whole one, of half the rate.
    #[test]
    fn a_second_that_the_end_cuts_off_knows_its_length() {
        let lengths = |numbers: std::ops::Range<u64>, ends_ns: [u64; 2]| -> Vec<u64> {
            let (last, mut seconds) = (numbers.end - 1, Seconds::new(2));
            let mut over = Vec::new();
            for number in numbers {
                for length_ns in ends_ns.map(|end_ns| if number == last { end_ns } else { INTERVAL_NS }) {
                    let is_last = number == last;
                    let interval = Interval { number, length_ns, answered: 1, is_last, ..Interval::new() };
                    over.extend(seconds.add(&interval));
                }
            }
            over.extend(seconds.finish());
            seconds_of(&over).iter().map(|second| second.length_ns).collect()
        };
        assert_eq!(lengths(0..16, [3_000, 2_000]), [SECOND_NS, 5 * INTERVAL_NS + 3_000]);
        assert_eq!(lengths(0..10, [7, 8]), [9 * INTERVAL_NS + 8], "within its last interval");
        assert_eq!(lengths(15..16, [INTERVAL_NS; 2]), [SECOND_NS, 6 * INTERVAL_NS], "before a hole");
    }

    #[test]
    fn a_hole_in_the_intervals_leaves_none_in_the_seconds() {
        let mut seconds = Seconds::new(1);
        let mut interval = Interval::new();
        (interval.number, interval.answered) = (25, 1);
        let mut over = seconds.add(&interval);
        over.extend(seconds.finish());
        let numbers: Vec<u64> = seconds_of(&over).iter().map(|second| second.number).collect();
        assert_eq!(numbers, [0, 1, 2]);
    }
}
