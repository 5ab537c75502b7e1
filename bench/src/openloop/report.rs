use std::time::Duration;

use hdrhistogram::Histogram;

use super::workload::Operation;

const NS_MAX: u64 = 600_000_000_000;

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Put = 0,
    Get = 1,
    NotFound = 2,
    /// 503
    Busy = 3,
    /// 507
    Full = 4,
    Other = 5,
}

impl Class {
    pub(super) const fn of(operation: Operation, status: u16) -> Self {
        match (status, operation) {
            (200..=299, Operation::Put) => Self::Put,
            (200..=299, Operation::Get) => Self::Get,
            (404, _) => Self::NotFound,
            (503, _) => Self::Busy,
            (507, _) => Self::Full,
            _ => Self::Other,
        }
    }
}

/// Latencies of one class, in nanoseconds.
#[derive(Debug, Clone)]
struct Latencies {
    /// From when the request was due.
    from_due: Histogram<u64>,
    /// From when it was sent.
    from_sent: Histogram<u64>,
}

/// What a run found.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    classes: [Latencies; 6],
    /// Every request that was due, those without an answer included: for them it is how long they had waited in vain.
    all: Histogram<u64>,
    /// How late requests were sent that could have been sent in time: the generator's own fault.
    lateness: Histogram<u64>,
    /// Requests sent, good answers and 503s received between the end of the warm-up and the end of the schedule: what
    /// rates are made of. All other counts are of the requests that became due in that time.
    pub(crate) sent_in_time: u64,
    pub(crate) good_in_time: u64,
    pub(crate) busy_in_time: u64,
    /// Without an answer within the timeout.
    pub(crate) timeouts: u64,
    /// On a connection that broke.
    pub(crate) lost: u64,
    /// Due, and not even sent when the time was over.
    pub(crate) unsent: u64,
    /// From the end of the warm-up.
    pub(crate) elapsed: Duration,
    /// What the generator's thread used, warm-up included.
    pub(crate) generator_cpu: Duration,
}

impl Report {
    pub(super) fn new() -> Self {
        let latencies = Latencies { from_due: histogram(), from_sent: histogram() };
        Self {
            classes: std::array::from_fn(|_| latencies.clone()),
            all: histogram(),
            lateness: histogram(),
            sent_in_time: 0,
            good_in_time: 0,
            busy_in_time: 0,
            timeouts: 0,
            lost: 0,
            unsent: 0,
            elapsed: Duration::ZERO,
            generator_cpu: Duration::ZERO,
        }
    }

    pub(super) fn record(&mut self, class: Class, from_due_ns: u64, from_sent_ns: u64) {
        let latencies = &mut self.classes[class as usize];
        latencies.from_due.saturating_record(from_due_ns);
        latencies.from_sent.saturating_record(from_sent_ns);
        self.all.saturating_record(from_due_ns);
    }

    pub(super) fn record_lateness(&mut self, lateness_ns: u64) {
        self.lateness.saturating_record(lateness_ns);
    }

    /// A request that waited so long and got nothing.
    pub(super) fn record_unanswered(&mut self, waited_ns: u64) {
        self.all.saturating_record(waited_ns);
    }

    pub(crate) fn count(&self, class: Class) -> u64 {
        self.classes[class as usize].from_due.len()
    }

    /// Requests with a good answer.
    pub(crate) fn good(&self) -> u64 {
        self.count(Class::Put) + self.count(Class::Get)
    }

    /// Requests with another answer than a good one, or none.
    pub(crate) fn bad(&self) -> u64 {
        let answered = [Class::NotFound, Class::Busy, Class::Full, Class::Other];
        answered.map(|class| self.count(class)).iter().sum::<u64>() + self.timeouts + self.lost + self.unsent
    }

    pub(crate) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.elapsed.as_secs_f64()
    }

    /// A percentile of every request from when it was due, in milliseconds.
    pub(crate) fn all_ms(&self, percentile: f64) -> f64 {
        milliseconds(&self.all, percentile)
    }

    /// A percentile of one class from when requests were due, in milliseconds.
    pub(crate) fn class_ms(&self, class: Class, percentile: f64) -> f64 {
        milliseconds(&self.classes[class as usize].from_due, percentile)
    }

    /// A percentile of one class from when requests were sent, in milliseconds.
    pub(crate) fn service_ms(&self, class: Class, percentile: f64) -> f64 {
        milliseconds(&self.classes[class as usize].from_sent, percentile)
    }

    /// How late the generator itself was, in milliseconds.
    pub(crate) fn lateness_ms(&self, percentile: f64) -> f64 {
        milliseconds(&self.lateness, percentile)
    }
}

fn histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, NS_MAX, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("constant bounds: {error}"),
    }
}

/// NaN where there is nothing to take a percentile of.
fn milliseconds(histogram: &Histogram<u64>, percentile: f64) -> f64 {
    if histogram.is_empty() { f64::NAN } else { histogram.value_at_percentile(percentile) as f64 / 1e6 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        use Operation::{Get, Put};
        let statuses = [(201, Put), (200, Get), (404, Get), (503, Put), (507, Put), (400, Put), (202, Put)];
        let classes = statuses.map(|(status, operation)| Class::of(operation, status));
        assert_eq!(
            classes,
            [Class::Put, Class::Get, Class::NotFound, Class::Busy, Class::Full, Class::Other, Class::Put]
        );
    }

    #[test]
    fn what_got_no_answer_is_in_the_tail() {
        let mut report = Report::new();
        for _ in 0..99 {
            report.record(Class::Put, 1_000_000, 500_000);
        }
        report.record_unanswered(9_000_000_000);
        assert!((report.all_ms(50.0) - 1.0).abs() < 0.01);
        assert!(report.all_ms(100.0) > 8_990.0);
        assert!((report.service_ms(Class::Put, 100.0) - 0.5).abs() < 0.01);
        assert!(report.class_ms(Class::Busy, 50.0).is_nan());
    }
}
