use ladoga_server::Limits;

/// A client that takes fewer bytes than this within the time for an answer takes none.
const TAKEN_BYTES_MIN: u64 = 4 << 10;
/// How long the last bytes of a client are waited for after its last reply.
const LINGER_MS: u64 = 5_000;

/// Why a connection has to end before everything is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// A request does not arrive.
    Late,
    /// Replies are not read, or there is no more time.
    CutOff,
}

/// Since when somebody is waited for.
#[derive(Default)]
pub(super) struct Waits {
    /// For a request: since when, and whether a part of it is there; and how much of that has arrived meanwhile.
    pub(super) request: Option<(u64, bool)>,
    pub(super) request_bytes: u64,
    /// For a client that does not take what there is for it; and what it has taken since then.
    pub(super) unread: Option<u64>,
    pub(super) taken_bytes: u64,
    /// For the client to close a connection on which everything is said.
    pub(super) lingering: Option<u64>,
}

impl Waits {
    pub(super) fn received(&mut self, bytes: usize, now_ms: u64) {
        self.request_bytes += bytes as u64;
        if let Some((since_ms, has_begun @ false)) = &mut self.request {
            (*since_ms, *has_begun) = (now_ms, true);
        }
    }

    pub(super) fn taken(&mut self, bytes: u64, is_all: bool) {
        if self.unread.is_some() {
            self.taken_bytes += bytes;
            if is_all || self.taken_bytes >= TAKEN_BYTES_MIN {
                self.unread = None;
            }
        }
    }

    pub(super) fn blocked(&mut self, now_ms: u64) {
        if self.unread.is_none() {
            (self.unread, self.taken_bytes) = (Some(now_ms), 0);
        }
    }

    /// The client took bytes of what was written before, and there is no room for more yet.
    pub(super) fn drained(&mut self, bytes: u64, now_ms: u64) {
        if self.unread.is_some() {
            self.taken_bytes += bytes;
            if self.taken_bytes >= TAKEN_BYTES_MIN {
                (self.unread, self.taken_bytes) = (Some(now_ms), 0);
            }
        }
    }

    /// Why it has waited for too long, if it has. An idle connection may wait for ever.
    pub(super) fn ending(&self, now_ms: u64, limits: &Limits) -> Option<Interruption> {
        let is_past = |since_ms: u64, timeout_ms: u64| now_ms.saturating_sub(since_ms) > timeout_ms;
        if self.unread.is_some_and(|since_ms| is_past(since_ms, limits.answer_timeout_ms))
            || self.lingering.is_some_and(|since_ms| is_past(since_ms, LINGER_MS))
        {
            return Some(Interruption::CutOff);
        }
        let allowance_ms = self.request_bytes * 1_000 / limits.body_bytes_per_second_min.max(1);
        let is_late = self.request.is_some_and(|(since_ms, has_begun)| {
            has_begun && is_past(since_ms, limits.request_timeout_ms + allowance_ms)
        });
        is_late.then_some(Interruption::Late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_may_wait_and_a_request_may_not() {
        let limits =
            Limits { request_timeout_ms: 100, body_bytes_per_second_min: 1_000, ..Limits::default() };
        let mut waits = Waits { request: Some((0, false)), ..Waits::default() };
        assert_eq!(waits.ending(u64::MAX / 2, &limits), None);
        waits.received(1, 1_000);
        assert_eq!(waits.ending(1_101, &limits), None);
        assert_eq!(waits.ending(1_102, &limits), Some(Interruption::Late));
        waits.received(500, 1_100);
        assert_eq!(waits.ending(1_601, &limits), None);
        assert_eq!(waits.ending(1_602, &limits), Some(Interruption::Late));
        waits.request = None;
        assert_eq!(waits.ending(u64::MAX / 2, &limits), None);
    }

    #[test]
    fn replies_have_to_be_taken_in_more_than_crumbs() {
        let limits = Limits { answer_timeout_ms: 50, ..Limits::default() };
        let mut waits = Waits::default();
        waits.blocked(0);
        waits.taken(TAKEN_BYTES_MIN - 1, false);
        waits.blocked(40);
        assert_eq!(waits.ending(50, &limits), None);
        assert_eq!(waits.ending(51, &limits), Some(Interruption::CutOff));
        waits.taken(1, false);
        assert_eq!(waits.ending(51, &limits), None);
    }

    #[test]
    fn who_takes_what_was_written_before_is_waited_for() {
        let limits = Limits { answer_timeout_ms: 50, ..Limits::default() };
        let mut waits = Waits::default();
        waits.drained(TAKEN_BYTES_MIN, 0);
        assert_eq!(waits.unread, None);
        waits.blocked(0);
        for now_ms in (40..=400).step_by(40) {
            waits.drained(TAKEN_BYTES_MIN, now_ms);
            assert_eq!(waits.ending(now_ms + 50, &limits), None);
        }
        waits.drained(TAKEN_BYTES_MIN - 1, 440);
        assert_eq!(waits.ending(451, &limits), Some(Interruption::CutOff));
    }
}
