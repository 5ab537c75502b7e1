use std::ops::{Add, Sub};

/// Bytes that cost a group about as much as one more entry.
const UNIT_BYTES: u64 = 1 << 10;
/// How long the queue may take. Long enough for several groups of large values, so that some dozen clients, each of which waits
/// for its answer, do not reach it. If it took longer, a client would do better to come back later.
const QUEUE_WAIT_NS_MAX: u64 = 25_000_000;
/// What may be queued, however slow it goes: about what a group takes in one sync.
const QUEUE_UNITS_MIN: u64 = 512;
/// What may be queued, however fast it goes.
const QUEUE_UNITS_MAX: u64 = 32 << 10;
/// What a unit costs as long as nothing is known; the cost of a small put, with headroom.
const UNIT_NS_DEFAULT: f64 = 2_000.0;
/// No measurement makes a unit cheaper or dearer than that.
const UNIT_NS_MIN: f64 = 200.0;
const UNIT_NS_MAX: f64 = 1e7;
/// How much the newest group counts.
const NEWEST: f64 = 1.0 / 32.0;
/// The variance of group sizes (in units squared) from which on measured groups count more than the default cost of a unit.
const BELIEF_VARIANCE: f64 = 64.0 * 64.0;

/// What writes cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct Cost {
    /// Entries, and what their bytes weigh.
    pub(super) units: u64,
    pub(super) bytes: u64,
}

impl Cost {
    /// The cost of an entry of `bytes`.
    pub(super) const fn of_entry(bytes: u64) -> Cost {
        Cost { units: 1 + bytes / UNIT_BYTES, bytes }
    }
}

impl Add for Cost {
    type Output = Cost;

    fn add(self, other: Cost) -> Cost {
        Cost { units: self.units + other.units, bytes: self.bytes + other.bytes }
    }
}

impl Sub for Cost {
    type Output = Cost;

    fn sub(self, other: Cost) -> Cost {
        Cost { units: self.units - other.units, bytes: self.bytes - other.bytes }
    }
}

/// The bound that is reached, so that no more is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// What is queued takes too long.
    Wait,
    /// There are too many.
    Entries,
    /// They are too large.
    Bytes,
}

impl Bound {
    pub(super) const ALL: [Bound; 3] = [Bound::Wait, Bound::Entries, Bound::Bytes];

    /// The label of the metric that counts refusals.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Bound::Wait => "wait",
            Bound::Entries => "entries",
            Bound::Bytes => "bytes",
        }
    }

    /// The text for the client.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Bound::Wait => "writes are queued for longer than they should wait",
            Bound::Entries => "the queue of writes is full",
            Bound::Bytes => "the queue of writes is full (bytes)",
        }
    }
}

/// Whether what is queued leaves room for more.
pub(super) const fn admit(queued: Cost, unit_ns: u64, queue_bytes_max: u64) -> Result<(), Bound> {
    if queued.units > QUEUE_UNITS_MIN && queued.units.saturating_mul(unit_ns) > QUEUE_WAIT_NS_MAX {
        Err(Bound::Wait)
    } else if queued.units > QUEUE_UNITS_MAX {
        Err(Bound::Entries)
    } else if queued.bytes > queue_bytes_max {
        Err(Bound::Bytes)
    } else {
        Ok(())
    }
}

/// What a unit costs: the slope of the time that groups take over their size, as a moving regression.
///
/// The time that a group takes whatever its size, as for the sync, is left out on purpose: refusing a write does not
/// save it. If all groups are of one size, size and time say nothing about each other, and the default holds.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnitCost {
    units: f64,
    ns: f64,
    units_squared: f64,
    units_ns: f64,
}

impl UnitCost {
    pub(super) const fn new() -> UnitCost {
        UnitCost { units: 0.0, ns: 0.0, units_squared: 0.0, units_ns: 0.0 }
    }

    /// A group of this size took so long.
    pub(super) fn observe(&mut self, units: u64, ns: u64) {
        let (units, ns) = (units as f64, ns as f64);
        let move_to = |mean: &mut f64, newest: f64| *mean += (newest - *mean) * NEWEST;
        move_to(&mut self.units, units);
        move_to(&mut self.ns, ns);
        move_to(&mut self.units_squared, units * units);
        move_to(&mut self.units_ns, units * ns);
    }

    /// What one more unit costs.
    pub(super) fn unit_ns(&self) -> u64 {
        let variance = self.units_squared - self.units * self.units;
        let covariance = self.units_ns - self.units * self.ns;
        let slope = (covariance + BELIEF_VARIANCE * UNIT_NS_DEFAULT) / (variance.max(0.0) + BELIEF_VARIANCE);
        slope.clamp(UNIT_NS_MIN, UNIT_NS_MAX) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cost of a unit that is estimated after groups of these sizes, each of which took a sync and `unit_ns` a unit.
    fn learn(sizes: impl Iterator<Item = u64>, sync_ns: u64, unit_ns: u64) -> u64 {
        let mut unit_cost = UnitCost::new();
        for units in sizes {
            unit_cost.observe(units, sync_ns + units * unit_ns);
        }
        unit_cost.unit_ns()
    }

    fn is_about(found: u64, expected: u64) -> bool {
        found.abs_diff(expected) * 5 < expected
    }

    #[test]
    fn groups_of_one_size_say_nothing_about_a_unit() {
        assert!(is_about(learn((0..1_000).map(|_| 64), 30_000, 1_000), 2_000));
        assert!(is_about(learn((0..1_000).map(|_| 1), 10_000_000, 1_000), 2_000));
    }

    #[test]
    fn groups_of_many_sizes_do_and_the_sync_is_left_out() {
        let sizes = || (0..1_000).map(|n| n * 7 % 1_500);
        assert!(is_about(learn(sizes(), 30_000, 1_000), 1_000));
        assert!(is_about(learn(sizes(), 20_000_000, 1_000), 1_000));
        assert!(is_about(learn(sizes(), 30_000, 50_000), 50_000));
    }

    #[test]
    fn nothing_makes_it_absurd() {
        assert_eq!(learn((0..1_000).map(|n| n % 2 * 5_000), u64::MAX >> 20, 0), UNIT_NS_MIN as u64);
        assert_eq!(UnitCost::new().unit_ns(), UNIT_NS_DEFAULT as u64);
    }

    #[test]
    fn a_queue_is_bounded_by_time_by_number_and_by_bytes() {
        let units = |units| Cost { units, bytes: 0 };
        assert_eq!(admit(units(12_500), 2_000, 0), Ok(()));
        assert_eq!(admit(units(12_501), 2_000, 0), Err(Bound::Wait));
        assert_eq!(admit(units(1_000), 30_000, 0), Err(Bound::Wait));
        assert_eq!(admit(units(QUEUE_UNITS_MIN), 10_000_000, 0), Ok(()));
        assert_eq!(admit(units(QUEUE_UNITS_MAX + 1), 1, 0), Err(Bound::Entries));
        assert_eq!(admit(Cost { units: 1, bytes: 11 }, 1, 10), Err(Bound::Bytes));
        assert_eq!(Cost::of_entry(100) + Cost::of_entry(2_048), Cost { units: 4, bytes: 2_148 });
    }
}
