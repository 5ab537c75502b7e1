use parking_lot::Mutex;

/// Which deletions of a replica are kept for those who follow changes. Other nodes of the cluster give tokens, too: so once it keeps
/// them it always does.
pub(super) struct Kept(Mutex<Limits>);

struct Limits {
    is_kept: bool,
    /// Deletions before this may be gone.
    dropped_before: u64,
}

impl Kept {
    /// That of a directory which has kept them before, or has not.
    pub(super) const fn new(is_kept: bool) -> Kept {
        Kept(Mutex::new(Limits { is_kept, dropped_before: 0 }))
    }

    /// From now on they are kept. Answers before which timestamp some may be gone: not after `settled`, before which a former
    /// process may have dropped them.
    pub(super) fn begin(&self, settled: u64) -> u64 {
        let mut limits = self.0.lock();
        limits.is_kept = true;
        if limits.dropped_before > 0 { limits.dropped_before } else { settled + 1 }
    }

    /// Has those before `timestamp` go; if they are kept, only those before `oldest_kept`.
    pub(super) fn drop_before(&self, timestamp: u64, oldest_kept: u64, drop: impl FnOnce(u64)) {
        let mut limits = self.0.lock();
        let before = if limits.is_kept { timestamp.min(oldest_kept) } else { timestamp };
        limits.dropped_before = limits.dropped_before.max(before);
        drop(before);
    }

    /// Deletions before this may be gone, as far as this process knows.
    pub(super) fn dropped_before(&self) -> u64 {
        self.0.lock().dropped_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_goes_when_it_is_old_and_what_went_before_is_known() {
        let dropped = |kept: &Kept, timestamp, oldest_kept| {
            let mut dropped = 0;
            kept.drop_before(timestamp, oldest_kept, |timestamp| dropped = timestamp);
            dropped
        };
        let kept = Kept::new(false);
        assert_eq!((dropped(&kept, 50, 10), kept.dropped_before()), (50, 50));
        assert_eq!(kept.begin(60), 50);
        assert_eq!((dropped(&kept, 70, 20), kept.dropped_before()), (20, 50));
        assert_eq!((dropped(&kept, 70, 65), kept.dropped_before()), (65, 65));
        assert_eq!((dropped(&kept, 70, 90), kept.dropped_before()), (70, 70));
        let kept = Kept::new(false);
        assert_eq!(kept.begin(60), 61, "a former process may have dropped that");
        assert_eq!(dropped(&Kept::new(true), 50, 10), 10);
    }
}
