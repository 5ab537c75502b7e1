use std::cell::Cell;

/// What a client takes while nothing more can be written to it. The system has room for more only once a third of a socket's
/// buffer is free, which a slow client takes many seconds for; what the client has acknowledged shows sooner.
///
/// Protocol: `(look* take? uncounted*)*`, and `written` after each write.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// What the client had not acknowledged at the last look, if nothing was written since.
    unacknowledged: Cell<Option<u64>>,
    /// What it took since then that nobody has asked for.
    seen: Cell<u64>,
    /// What was asked for before there was room for as much again.
    ahead: Cell<u64>,
}

impl Drain {
    /// Answers how many bytes the client took since the last look.
    pub(crate) fn look(&self, unacknowledged: u64) -> u64 {
        let before = self.unacknowledged.replace(Some(unacknowledged));
        let taken = before.unwrap_or(unacknowledged).saturating_sub(unacknowledged);
        self.seen.set(self.seen.get() + taken);
        taken
    }

    /// Bytes were written: there was room.
    pub(crate) fn written(&self) {
        self.unacknowledged.set(None);
        self.seen.set(0);
    }

    /// What the client took since this was asked last.
    pub(crate) fn take(&self) -> u64 {
        let seen = self.seen.take();
        self.ahead.set(self.ahead.get() + seen);
        seen
    }

    /// How many of these bytes, which were written, count as taken now: those for which [`Drain::take`] made room counted before.
    pub(crate) fn uncounted(&self, written: u64) -> u64 {
        let counted = written.min(self.ahead.get());
        self.ahead.set(self.ahead.get() - counted);
        written - counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_counts_once() {
        let drain = Drain::default();
        drain.written();
        assert_eq!((drain.uncounted(1_000), drain.look(900), drain.take()), (1_000, 0, 0));
        assert_eq!((drain.look(850), drain.look(800), drain.take(), drain.take()), (50, 50, 100, 0));
        assert_eq!((drain.look(600), drain.take()), (200, 200));
        // There is room: of what is written now, 300 bytes are in place of those that were taken.
        drain.written();
        assert_eq!((drain.uncounted(250), drain.uncounted(250), drain.uncounted(250)), (0, 200, 250));
        // What is in the buffer now says nothing about what was taken before.
        assert_eq!((drain.look(500), drain.take()), (0, 0));
        assert_eq!((drain.look(700), drain.take()), (0, 0));
    }
}
