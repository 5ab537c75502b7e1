/// How much the newest group counts.
const NEWEST: f64 = 1.0 / 16.0;
/// Groups with fewer writes than this come one after another: a client waits for each.
const ENTRIES_SPARSE: f64 = 3.0;
/// A longer pause is not worth waiting for awake.
const PAUSE_NS_MAX: f64 = 60_000.0;
/// How much longer than the usual pause the committer stays awake.
const PATIENCE: f64 = 3.0;

/// Whether the committer should stay awake for what comes next.
///
/// Where few clients write as fast as they are answered, going to sleep and being woken costs as much as the write.
/// Where many do, groups are large, and a processor that waits is one that the event loops lack.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rhythm {
    entries: f64,
    pause_ns: f64,
}

impl Rhythm {
    pub(super) const fn new() -> Rhythm {
        Rhythm { entries: ENTRIES_SPARSE, pause_ns: PAUSE_NS_MAX * 2.0 }
    }

    /// A group of this size came after such a pause.
    pub(super) fn observe(&mut self, entries: u64, pause_ns: u64) {
        self.entries += (entries as f64 - self.entries) * NEWEST;
        // One long pause says nothing about the next.
        let pause_ns = (pause_ns as f64).min(PAUSE_NS_MAX * 4.0);
        self.pause_ns += (pause_ns - self.pause_ns) * NEWEST;
    }

    /// How long to stay awake; 0 is not at all.
    pub(super) fn awake_ns(&self) -> u64 {
        if self.entries > ENTRIES_SPARSE || self.pause_ns > PAUSE_NS_MAX {
            return 0;
        }
        (self.pause_ns * PATIENCE) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(groups: usize, entries: u64, pause_ns: u64) -> u64 {
        let mut rhythm = Rhythm::new();
        (0..groups).for_each(|_| rhythm.observe(entries, pause_ns));
        rhythm.awake_ns()
    }

    #[test]
    fn it_stays_awake_for_few_clients_that_come_back_at_once() {
        assert_eq!(after(0, 0, 0), 0);
        let awake_ns = after(200, 1, 20_000);
        assert!((50_000..70_000).contains(&awake_ns), "{awake_ns}");
    }

    #[test]
    fn it_sleeps_where_there_are_many_or_they_take_their_time() {
        assert_eq!(after(200, 20, 20_000), 0);
        assert_eq!(after(200, 1, 200_000), 0);
    }

    #[test]
    fn one_long_pause_changes_little() {
        let mut rhythm = Rhythm::new();
        (0..200).for_each(|_| rhythm.observe(1, 10_000));
        rhythm.observe(1, 1_000_000_000);
        assert!(rhythm.awake_ns() > 0);
    }
}
