use std::cell::Cell;

use ladoga_server::Limits;

/// A client that takes fewer bytes than this within the time for an answer takes none.
const ANSWER_BYTES_MIN: u64 = 4 << 10;
/// How long the last bytes of a client are waited for after its last answer.
const LINGER_MS: u64 = 5_000;

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing of a request has arrived since the last one.
    Idle,
    /// A part of the head of a request is there.
    Head,
    /// A request is being served: time is ours.
    Serving,
    /// The body of a request is arriving.
    Body,
    /// An answer is on its way out, by way of hyper.
    Answering,
    /// An answer is on its way out, past hyper.
    Streaming,
    /// It is a peer's, which has rules of its own.
    Peer,
    /// The last answer is out; what the client still sends is thrown away.
    Lingering,
}

/// Who let a connection wait for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The client, with the head of a request.
    Head,
    /// The client, with the body of a request.
    Body,
    /// The client, in taking its answer.
    Answer,
    /// Perhaps the client, with the head of a request that began behind the last one: hyper has it and does not say.
    Look,
    /// Nobody: it was not used, or is over anyway.
    Idle,
    /// The node, which has to stop.
    Drain,
}

/// Since when a connection does what it does. A cell a fact, all of one thread: the requests only note, and a
/// sweeper looks from time to time, so that no request sets a timer.
#[derive(Debug)]
pub(super) struct Progress {
    phase: Cell<Phase>,
    /// When the phase began.
    since_ms: Cell<u64>,
    /// Whether, since then, it was looked for a part of a head.
    was_looked_at: Cell<bool>,
    /// When the last piece of a body came.
    body_piece_ms: Cell<u64>,
    body_bytes: Cell<u64>,
    /// Since when the client has not taken what there is for it.
    blocked_since_ms: Cell<Option<u64>>,
    /// What it has taken since then.
    blocked_bytes: Cell<u64>,
}

impl Progress {
    pub(super) fn new(now_ms: u64) -> Progress {
        Progress {
            phase: Cell::new(Phase::Idle),
            since_ms: Cell::new(now_ms),
            // Nothing is there yet.
            was_looked_at: Cell::new(true),
            body_piece_ms: Cell::new(now_ms),
            body_bytes: Cell::new(0),
            blocked_since_ms: Cell::new(None),
            blocked_bytes: Cell::new(0),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase.get()
    }

    pub(super) fn enter(&self, phase: Phase, now_ms: u64) {
        self.phase.set(phase);
        self.since_ms.set(now_ms);
    }

    /// The last request is answered.
    pub(super) fn rest(&self, now_ms: u64) {
        self.enter(Phase::Idle, now_ms);
        self.was_looked_at.set(false);
    }

    /// There is no part of a head.
    pub(super) fn looked(&self) {
        self.was_looked_at.set(true);
    }

    /// Whether no answer is owed: the next request is not there, or not whole.
    pub(super) fn owes_no_answer(&self) -> bool {
        matches!(self.phase.get(), Phase::Idle | Phase::Head)
    }

    pub(super) fn begin_body(&self, now_ms: u64) {
        self.enter(Phase::Body, now_ms);
        self.body_piece_ms.set(now_ms);
        self.body_bytes.set(0);
    }

    pub(super) fn body_piece(&self, bytes: u64, now_ms: u64) {
        self.body_piece_ms.set(now_ms);
        self.body_bytes.set(self.body_bytes.get() + bytes);
    }

    /// The body is not waited for, for as long as the disk takes with what is there.
    pub(super) fn pause_body(&self, now_ms: u64) {
        self.phase.set(Phase::Serving);
        self.body_piece_ms.set(now_ms);
    }

    /// The body is waited for again.
    pub(super) fn resume_body(&self, now_ms: u64) {
        let paused_ms = now_ms.saturating_sub(self.body_piece_ms.get());
        self.enter(Phase::Body, self.since_ms.get() + paused_ms);
        self.body_piece_ms.set(now_ms);
    }

    /// The client took bytes: all there were, or some.
    pub(super) fn wrote(&self, bytes: u64, all: bool) {
        if self.blocked_since_ms.get().is_some() {
            let taken = self.blocked_bytes.get() + bytes;
            self.blocked_bytes.set(taken);
            if all || taken >= ANSWER_BYTES_MIN {
                self.blocked_since_ms.set(None);
            }
        }
    }

    /// The client did not take what there is for it.
    pub(super) fn blocked(&self, now_ms: u64) {
        if self.blocked_since_ms.get().is_none() {
            self.blocked_since_ms.set(Some(now_ms));
            self.blocked_bytes.set(0);
        }
    }

    /// Whether there is something that the client has not taken yet.
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_since_ms.get().is_some()
    }

    /// Whether somebody let the connection wait for too long.
    pub(super) fn overdue(&self, now_ms: u64, limits: &Limits) -> Option<Overdue> {
        let is_past = |since_ms: u64, timeout_ms: u64| now_ms.saturating_sub(since_ms) > timeout_ms;
        if self.blocked_since_ms.get().is_some_and(|since_ms| is_past(since_ms, limits.answer_timeout_ms)) {
            return Some(Overdue::Answer);
        }
        let since_ms = self.since_ms.get();
        let (is_overdue, who) = match self.phase.get() {
            Phase::Idle if is_past(since_ms, limits.idle_timeout_ms) => (true, Overdue::Idle),
            Phase::Idle => {
                let may_be_in_a_head = !self.was_looked_at.get();
                (may_be_in_a_head && is_past(since_ms, limits.request_timeout_ms), Overdue::Look)
            }
            Phase::Head => (is_past(since_ms, limits.request_timeout_ms), Overdue::Head),
            Phase::Body => {
                let allowance_ms = self.body_bytes.get() * 1_000 / limits.body_bytes_per_second_min.max(1);
                let is_paused = is_past(self.body_piece_ms.get(), limits.request_timeout_ms);
                let is_slow = is_past(since_ms, limits.request_timeout_ms + allowance_ms);
                (is_paused || is_slow, Overdue::Body)
            }
            Phase::Lingering => (is_past(since_ms, LINGER_MS), Overdue::Idle),
            Phase::Serving | Phase::Answering | Phase::Streaming | Phase::Peer => (false, Overdue::Answer),
        };
        is_overdue.then_some(who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            request_timeout_ms: 100,
            body_bytes_per_second_min: 1_000,
            answer_timeout_ms: 50,
            idle_timeout_ms: 1_000,
            ..Limits::default()
        }
    }

    #[test]
    fn a_head_has_its_time_from_the_first_byte_on() {
        let progress = Progress::new(0);
        assert_eq!(progress.overdue(1_000, &limits()), None);
        assert_eq!(progress.overdue(1_001, &limits()), Some(Overdue::Idle));
        progress.enter(Phase::Head, 900);
        assert_eq!(progress.overdue(1_000, &limits()), None);
        assert_eq!(progress.overdue(1_001, &limits()), Some(Overdue::Head));
    }

    #[test]
    fn it_is_looked_once_what_rests() {
        let progress = Progress::new(0);
        assert_eq!(progress.overdue(500, &limits()), None);
        progress.rest(500);
        assert_eq!(progress.overdue(600, &limits()), None);
        assert_eq!(progress.overdue(601, &limits()), Some(Overdue::Look));
        progress.looked();
        assert_eq!(progress.overdue(1_500, &limits()), None);
        assert_eq!(progress.overdue(1_501, &limits()), Some(Overdue::Idle));
    }

    #[test]
    fn a_request_being_served_waits_for_us() {
        let progress = Progress::new(0);
        progress.enter(Phase::Serving, 0);
        assert_eq!(progress.overdue(u64::MAX, &limits()), None);
    }

    #[test]
    fn a_body_may_neither_pause_nor_trickle() {
        let progress = Progress::new(0);
        progress.begin_body(0);
        assert_eq!(progress.overdue(100, &limits()), None);
        assert_eq!(progress.overdue(101, &limits()), Some(Overdue::Body));
        // 500 bytes at 1,000 bytes a second give it another 500 ms, but not in one pause.
        progress.body_piece(500, 90);
        assert_eq!(progress.overdue(190, &limits()), None);
        assert_eq!(progress.overdue(191, &limits()), Some(Overdue::Body));
        for now_ms in (150..=600).step_by(50) {
            progress.body_piece(0, now_ms);
        }
        assert_eq!(progress.overdue(600, &limits()), None);
        assert_eq!(progress.overdue(601, &limits()), Some(Overdue::Body));
    }

    #[test]
    fn the_time_of_the_disk_is_not_the_clients() {
        let progress = Progress::new(0);
        progress.begin_body(0);
        progress.pause_body(60);
        assert_eq!(progress.overdue(u64::MAX, &limits()), None);
        progress.resume_body(1_060);
        assert_eq!(progress.overdue(1_100, &limits()), None);
        assert_eq!(progress.overdue(1_101, &limits()), Some(Overdue::Body));
    }

    #[test]
    fn an_answer_has_to_be_taken_in_more_than_crumbs() {
        let progress = Progress::new(0);
        progress.enter(Phase::Answering, 0);
        assert_eq!(progress.overdue(10_000, &limits()), None);
        progress.blocked(0);
        progress.wrote(ANSWER_BYTES_MIN - 1, false);
        progress.blocked(40);
        assert_eq!(progress.overdue(50, &limits()), None);
        assert_eq!(progress.overdue(51, &limits()), Some(Overdue::Answer));
        progress.wrote(1, false);
        progress.blocked(45);
        assert_eq!(progress.overdue(95, &limits()), None);
        progress.wrote(1, true);
        assert!(!progress.is_blocked());
        assert_eq!(progress.overdue(10_000, &limits()), None);
    }
}
