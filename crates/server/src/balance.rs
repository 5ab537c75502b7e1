use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Loops that want more of the CPUs than this, each, are too few, if that lasts.
const PRESSED: f64 = 0.8;
/// CPUs that nobody uses have to be this many for another loop to be of use: with less, it would take from whom it serves.
const SPARE_CPUS: f64 = 0.5;
/// Loops that wait for a CPU for so much of their time, each, compete with others, among which more threads get more.
const CROWDED: f64 = 0.4;
/// Loops of which half would want less than this, each, are too many, if that lasts.
const RELAXED: f64 = 0.5;
/// So many looks in a row have to find that there are too few, or too many.
const PRESSED_LOOKS: u32 = 2;
const RELAXED_LOOKS: u32 = 8;

/// What the event loops made of the CPUs from one look to the next. All figures are in CPUs: 1.0 is all of one's time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Usage {
    /// What the loops had, and waited for.
    pub(super) wanted: f64,
    /// What they waited for.
    pub(super) waited: f64,
    /// What nobody on this machine used.
    pub(super) spare: f64,
}

/// How many event loops are to serve. One that can do the work alone does it with fewer system calls, fuller groups of writes,
/// and no thread more on the CPUs that its clients may need, if they are on the same machine.
#[derive(Debug)]
pub(super) struct Balance {
    loops: usize,
    serving: usize,
    pressed: u32,
    relaxed: u32,
}

impl Balance {
    /// Begins with one.
    pub(super) const fn new(loops: usize) -> Balance {
        Balance { loops, serving: 1, pressed: 0, relaxed: 0 }
    }

    /// So many are to serve from now on.
    pub(super) fn after(&mut self, usage: Usage) -> usize {
        let serving = self.serving as f64;
        let has_use_for_more = usage.spare >= SPARE_CPUS || usage.waited >= CROWDED * serving;
        let is_pressed = usage.wanted >= PRESSED * serving && has_use_for_more;
        let fewer = self.serving.div_ceil(2);
        let is_relaxed = self.serving > 1 && usage.wanted < RELAXED * fewer as f64;
        self.pressed = if is_pressed { self.pressed + 1 } else { 0 };
        self.relaxed = if is_relaxed { self.relaxed + 1 } else { 0 };
        if self.pressed >= PRESSED_LOOKS {
            (self.serving, self.pressed) = ((self.serving * 2).min(self.loops), 0);
        } else if self.relaxed >= RELAXED_LOOKS {
            (self.serving, self.relaxed) = (fewer, 0);
        }
        self.serving
    }
}

/// What the loops tell each other about that.
#[derive(Debug)]
pub(super) struct Shares {
    serving: AtomicUsize,
    /// What each loop had of the CPUs, and waited for, since it began.
    loops: Vec<(AtomicU64, AtomicU64)>,
}

impl Shares {
    /// Of so many loops, of which the first so many serve.
    pub(super) fn new(loops: usize, serving: usize) -> Shares {
        Shares { serving: AtomicUsize::new(serving), loops: (0..loops).map(|_| Default::default()).collect() }
    }

    /// How many loops serve: the first ones.
    pub(super) fn serving(&self) -> usize {
        self.serving.load(Ordering::Relaxed)
    }

    /// So many serve from now on.
    pub(super) fn let_serve(&self, serving: usize) {
        self.serving.store(serving, Ordering::Relaxed);
    }

    /// Loop `index` had so much, and waited so long.
    pub(super) fn tell(&self, index: usize, (cpu_ns, wait_ns): (u64, u64)) {
        self.loops[index].0.store(cpu_ns, Ordering::Relaxed);
        self.loops[index].1.store(wait_ns, Ordering::Relaxed);
    }

    /// What the loops had, and waited for, altogether.
    pub(super) fn sums_ns(&self) -> (u64, u64) {
        self.loops.iter().fold((0, 0), |(cpu_ns, wait_ns), own| {
            (cpu_ns + own.0.load(Ordering::Relaxed), wait_ns + own.1.load(Ordering::Relaxed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALONE_AND_BUSY: Usage = Usage { wanted: 1.0, waited: 0.0, spare: 1.0 };

    fn serving_after(balance: &mut Balance, usage: Usage, looks: u32) -> usize {
        (0..looks).map(|_| balance.after(usage)).last().expect("a look")
    }

    #[test]
    fn more_loops_serve_while_there_are_cpus_for_them() {
        let mut balance = Balance::new(6);
        assert_eq!(balance.after(ALONE_AND_BUSY), 1);
        assert_eq!(balance.after(ALONE_AND_BUSY), 2);
        // Half of what two can do is no reason for more.
        assert_eq!(serving_after(&mut balance, ALONE_AND_BUSY, 100), 2);
        assert_eq!(serving_after(&mut balance, Usage { wanted: 1.9, ..ALONE_AND_BUSY }, 2), 4);
        assert_eq!(serving_after(&mut balance, Usage { wanted: 3.9, ..ALONE_AND_BUSY }, 100), 6);
    }

    #[test]
    fn clients_on_the_same_cpus_keep_them() {
        let beside_its_client = Usage { wanted: 1.0, waited: 0.1, spare: 0.15 };
        assert_eq!(serving_after(&mut Balance::new(2), beside_its_client, 100), 1);
        // Strangers who take all that there is do not.
        let crowded = Usage { wanted: 1.0, waited: 0.5, spare: 0.0 };
        assert_eq!(serving_after(&mut Balance::new(2), crowded, 2), 2);
    }

    #[test]
    fn a_moment_changes_nothing() {
        let mut balance = Balance::new(2);
        let calm = Usage { wanted: 0.1, waited: 0.0, spare: 1.9 };
        for _ in 0..10 {
            assert_eq!((balance.after(ALONE_AND_BUSY), balance.after(calm)), (1, 1));
        }
        assert_eq!(serving_after(&mut balance, ALONE_AND_BUSY, 2), 2);
        for _ in 0..10 {
            assert_eq!(serving_after(&mut balance, calm, RELAXED_LOOKS - 1), 2);
            assert_eq!(balance.after(ALONE_AND_BUSY), 2);
        }
        assert_eq!(serving_after(&mut balance, calm, RELAXED_LOOKS), 1);
    }
}
