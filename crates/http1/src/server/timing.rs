/// A client that takes fewer bytes than this within the time for an answer takes none.
const ANSWER_BYTES_MIN: u64 = 4 << 10;
/// How long the last bytes of a client are waited for after its last answer.
const LINGER_MS: u64 = 5_000;

/// How long may be waited for whom.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// For a head from its first byte on, and for each piece of a body.
    pub request_ms: u64,
    /// How fast a body has to arrive on the whole, once the time above is used up.
    pub body_bytes_per_second_min: u64,
    /// For a client that takes nothing of its answer.
    pub answer_ms: u64,
    /// Without a request.
    pub idle_ms: u64,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing of a request has arrived since the last answer.
    Idle,
    /// A part of the head of a request is there.
    Head,
    /// A request is being served or answered: time is the server's.
    Serving,
    /// The body of a request is arriving.
    Body,
    /// Another protocol took over, which has rules of its own.
    Upgraded,
    /// The last answer is out; what the client still sends is discarded.
    Lingering,
}

/// Who let a connection wait for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overdue {
    /// The client, with the head of a request.
    Head,
    /// The client, with the body of a request.
    Body,
    /// The client, in taking its answer.
    Answer,
    /// Neither side: the connection is idle, or has ended.
    Idle,
}

/// Since when a connection does what it does.
#[derive(Debug)]
pub(crate) struct Timing {
    phase: Phase,
    /// When the phase began.
    since_ms: u64,
    /// When the last piece of a body came.
    body_piece_ms: u64,
    body_bytes: u64,
    /// Since when the client has not taken what there is for it.
    blocked_since_ms: Option<u64>,
    /// What it has taken since then.
    blocked_bytes: u64,
}

impl Timing {
    pub(crate) fn new(now_ms: u64) -> Timing {
        Timing {
            phase: Phase::Idle,
            since_ms: now_ms,
            body_piece_ms: now_ms,
            body_bytes: 0,
            blocked_since_ms: None,
            blocked_bytes: 0,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn enter(&mut self, phase: Phase, now_ms: u64) {
        (self.phase, self.since_ms) = (phase, now_ms);
    }

    /// A head is waited for, of which something may be there.
    pub(crate) fn wait(&mut self, has_begun: bool, now_ms: impl FnOnce() -> u64) {
        match (self.phase, has_begun) {
            (Phase::Idle, true) => self.enter(Phase::Head, now_ms()),
            (Phase::Head, false) => self.enter(Phase::Idle, now_ms()),
            _ => {}
        }
    }

    /// Bytes arrived.
    pub(crate) fn received(&mut self, bytes: usize, now_ms: impl FnOnce() -> u64) {
        if self.phase == Phase::Body {
            self.body_piece_ms = now_ms();
            self.body_bytes += bytes as u64;
        }
    }

    pub(crate) fn begin_body(&mut self, now_ms: u64) {
        self.enter(Phase::Body, now_ms);
        (self.body_piece_ms, self.body_bytes) = (now_ms, 0);
    }

    /// The body is not waited for while the server is busy with the part that has arrived.
    pub(crate) fn pause_body(&mut self, now_ms: u64) {
        self.phase = Phase::Serving;
        self.body_piece_ms = now_ms;
    }

    /// The body is waited for again.
    pub(crate) fn resume_body(&mut self, now_ms: u64) {
        let paused_ms = now_ms.saturating_sub(self.body_piece_ms);
        self.enter(Phase::Body, self.since_ms + paused_ms);
        self.body_piece_ms = now_ms;
    }

    /// The client took bytes: all there were, or some.
    pub(crate) fn sent(&mut self, bytes: usize, all: bool) {
        if self.blocked_since_ms.is_some() {
            self.blocked_bytes += bytes as u64;
            if all || self.blocked_bytes >= ANSWER_BYTES_MIN {
                self.blocked_since_ms = None;
            }
        }
    }

    /// The client did not take what there is for it.
    pub(crate) fn blocked(&mut self, now_ms: u64) {
        if self.blocked_since_ms.is_none() {
            (self.blocked_since_ms, self.blocked_bytes) = (Some(now_ms), 0);
        }
    }

    /// Whether the client is waited for, to take what there is for it.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked_since_ms.is_some()
    }

    /// The client took bytes of what was written before, and there is no room for more yet.
    pub(crate) fn drained(&mut self, bytes: u64, now_ms: u64) {
        if self.is_blocked() {
            self.blocked_bytes += bytes;
            if self.blocked_bytes >= ANSWER_BYTES_MIN {
                (self.blocked_since_ms, self.blocked_bytes) = (Some(now_ms), 0);
            }
        }
    }

    /// Whether nothing has been asked for since the given time.
    pub(crate) fn has_rested_since(&self, ms: u64) -> bool {
        self.phase == Phase::Idle && self.since_ms <= ms && !self.is_blocked()
    }

    /// Whether one side has kept the other waiting for too long.
    pub(crate) fn overdue(&self, now_ms: u64, limits: &Timeouts) -> Option<Overdue> {
        let is_past = |since_ms: u64, timeout_ms: u64| now_ms.saturating_sub(since_ms) > timeout_ms;
        if self.blocked_since_ms.is_some_and(|since_ms| is_past(since_ms, limits.answer_ms)) {
            return Some(Overdue::Answer);
        }
        let (is_overdue, who) = match self.phase {
            Phase::Idle => (is_past(self.since_ms, limits.idle_ms), Overdue::Idle),
            Phase::Head => (is_past(self.since_ms, limits.request_ms), Overdue::Head),
            Phase::Body => {
                let allowance_ms = self.body_bytes * 1_000 / limits.body_bytes_per_second_min.max(1);
                let is_paused = is_past(self.body_piece_ms, limits.request_ms);
                let is_slow = is_past(self.since_ms, limits.request_ms + allowance_ms);
                (is_paused || is_slow, Overdue::Body)
            }
            Phase::Lingering => (is_past(self.since_ms, LINGER_MS), Overdue::Idle),
            Phase::Serving | Phase::Upgraded => (false, Overdue::Answer),
        };
        is_overdue.then_some(who)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Timeouts =
        Timeouts { request_ms: 100, body_bytes_per_second_min: 1_000, answer_ms: 50, idle_ms: 1_000 };

    #[test]
    fn a_head_has_its_time_from_the_first_byte_on() {
        let mut timing = Timing::new(0);
        assert_eq!(timing.overdue(1_000, &LIMITS), None);
        assert_eq!(timing.overdue(1_001, &LIMITS), Some(Overdue::Idle));
        timing.wait(true, || 900);
        timing.received(1, || 990);
        timing.wait(true, || 990);
        assert_eq!(timing.overdue(1_000, &LIMITS), None);
        assert_eq!(timing.overdue(1_001, &LIMITS), Some(Overdue::Head));
    }

    #[test]
    fn what_turns_out_to_be_nothing_has_begun_no_head() {
        let mut timing = Timing::new(0);
        timing.wait(true, || 500);
        timing.wait(true, || 550);
        assert_eq!(timing.overdue(601, &LIMITS), Some(Overdue::Head));
        timing.wait(false, || 560);
        assert_eq!(timing.overdue(1_560, &LIMITS), None);
        assert_eq!(timing.overdue(1_561, &LIMITS), Some(Overdue::Idle));
        timing.enter(Phase::Serving, 600);
        timing.wait(true, || 700);
        assert_eq!(timing.overdue(u64::MAX, &LIMITS), None);
    }

    #[test]
    fn a_request_being_served_waits_for_the_server() {
        let mut timing = Timing::new(0);
        timing.enter(Phase::Serving, 0);
        assert_eq!(timing.overdue(u64::MAX, &LIMITS), None);
    }

    #[test]
    fn a_body_may_neither_pause_nor_trickle() {
        let mut timing = Timing::new(0);
        timing.begin_body(0);
        assert_eq!(timing.overdue(100, &LIMITS), None);
        assert_eq!(timing.overdue(101, &LIMITS), Some(Overdue::Body));
        // 500 bytes at 1,000 bytes a second give it another 500 ms, but not in one pause.
        timing.received(500, || 90);
        assert_eq!(timing.overdue(190, &LIMITS), None);
        assert_eq!(timing.overdue(191, &LIMITS), Some(Overdue::Body));
        for now_ms in (150..=600).step_by(50) {
            timing.received(0, || now_ms);
        }
        assert_eq!(timing.overdue(600, &LIMITS), None);
        assert_eq!(timing.overdue(601, &LIMITS), Some(Overdue::Body));
    }

    #[test]
    fn the_time_of_the_disk_is_not_the_clients() {
        let mut timing = Timing::new(0);
        timing.begin_body(0);
        timing.pause_body(60);
        assert_eq!(timing.overdue(u64::MAX, &LIMITS), None);
        timing.resume_body(1_060);
        assert_eq!(timing.overdue(1_100, &LIMITS), None);
        assert_eq!(timing.overdue(1_101, &LIMITS), Some(Overdue::Body));
    }

    #[test]
    fn an_answer_has_to_be_taken_in_more_than_crumbs() {
        let mut timing = Timing::new(0);
        timing.enter(Phase::Serving, 0);
        assert_eq!(timing.overdue(10_000, &LIMITS), None);
        timing.blocked(0);
        timing.sent(ANSWER_BYTES_MIN as usize - 1, false);
        timing.blocked(40);
        assert_eq!(timing.overdue(50, &LIMITS), None);
        assert_eq!(timing.overdue(51, &LIMITS), Some(Overdue::Answer));
        timing.sent(1, false);
        timing.blocked(45);
        assert_eq!(timing.overdue(95, &LIMITS), None);
        timing.sent(1, true);
        assert_eq!(timing.overdue(10_000, &LIMITS), None);
    }

    #[test]
    fn who_takes_what_was_written_before_is_waited_for() {
        let mut timing = Timing::new(0);
        timing.enter(Phase::Serving, 0);
        timing.drained(ANSWER_BYTES_MIN, 0);
        assert!(!timing.is_blocked());
        timing.blocked(0);
        for now_ms in (40..=400).step_by(40) {
            timing.drained(ANSWER_BYTES_MIN, now_ms);
            assert_eq!(timing.overdue(now_ms + 50, &LIMITS), None);
        }
        timing.drained(ANSWER_BYTES_MIN - 1, 440);
        assert_eq!(timing.overdue(451, &LIMITS), Some(Overdue::Answer));
        timing.drained(1, 451);
        assert_eq!(timing.overdue(501, &LIMITS), None);
    }
}
