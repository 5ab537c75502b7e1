use ladoga_runtime::Taken;
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
    /// Replies are read so slowly that what the connection holds goes to others.
    Displaced(Taken),
}

/// Since when somebody is waited for.
#[derive(Default)]
pub(super) struct Waits {
    /// For a request: since when, and whether a part of it is there; and how much of that has arrived meanwhile.
    pub(super) request: Option<(u64, bool)>,
    pub(super) request_bytes: u64,
    /// When the last of that arrived.
    pub(super) request_piece_ms: u64,
    /// What it was waited for, and since when it is not, because the node is busy with what has arrived.
    pub(super) paused: Option<((u64, bool), u64)>,
    /// For a client that does not take what there is for it; and what it has taken since then.
    pub(super) unread: Option<u64>,
    pub(super) taken_bytes: u64,
    /// For the client to close a connection on which everything is said.
    pub(super) lingering: Option<u64>,
}

impl Waits {
    /// A request is waited for, or the rest of one that has begun.
    pub(super) fn wait_for_request(&mut self, now_ms: u64, has_begun: bool) {
        if let Some(((since_ms, had_begun), paused_ms)) = self.paused.take() {
            self.request = Some((since_ms + now_ms.saturating_sub(paused_ms), had_begun));
            self.request_piece_ms = now_ms;
        }
        if self.request.is_none_or(|(_, had_begun)| had_begun != has_begun) {
            self.request = Some((now_ms, has_begun));
            (self.request_bytes, self.request_piece_ms) = (0, now_ms);
        }
    }

    /// The rest of a request is not waited for while the node is busy with what has arrived.
    pub(super) fn pause_request(&mut self, now_ms: u64) {
        if let Some(request) = self.request.take() {
            self.paused = Some((request, now_ms));
        }
    }

    /// No request is waited for.
    pub(super) fn end_request(&mut self) {
        (self.request, self.paused) = (None, None);
    }

    pub(super) fn received(&mut self, bytes: usize, now_ms: u64) {
        self.request_bytes += bytes as u64;
        if bytes > 0 {
            self.request_piece_ms = now_ms;
        }
        if let Some((since_ms, has_begun @ false)) = &mut self.request {
            (*since_ms, *has_begun) = (now_ms, true);
            self.request_piece_ms = now_ms;
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
            let is_slow = is_past(since_ms, limits.request_timeout_ms + allowance_ms);
            has_begun && (is_slow || is_past(self.request_piece_ms, limits.request_timeout_ms))
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
        assert_eq!(waits.ending(1_100, &limits), None);
        assert_eq!(waits.ending(1_101, &limits), Some(Interruption::Late));
        // 500 bytes at 1,000 bytes a second give it another 500 ms, but not in one pause.
        waits.received(500, 1_100);
        assert_eq!(waits.ending(1_200, &limits), None);
        assert_eq!(waits.ending(1_201, &limits), Some(Interruption::Late));
        (1_150..=1_600).step_by(50).for_each(|now_ms| waits.received(0, now_ms));
        assert_eq!(waits.ending(1_201, &limits), Some(Interruption::Late), "nothing has come");
        waits.received(1, 1_600);
        assert_eq!(waits.ending(1_602, &limits), None);
        assert_eq!(waits.ending(1_603, &limits), Some(Interruption::Late));
        waits.end_request();
        assert_eq!(waits.ending(u64::MAX / 2, &limits), None);
    }

    #[test]
    fn the_time_of_the_disk_is_not_the_clients_and_a_trickle_has_no_time_of_its_own() {
        let limits =
            Limits { request_timeout_ms: 100, body_bytes_per_second_min: 1_000, ..Limits::default() };
        let mut waits = Waits::default();
        waits.wait_for_request(0, true);
        waits.received(10, 60);
        waits.pause_request(60);
        waits.pause_request(500);
        assert_eq!(waits.ending(u64::MAX / 2, &limits), None);
        waits.wait_for_request(1_060, true);
        assert_eq!(waits.ending(1_110, &limits), None);
        assert_eq!(waits.ending(1_111, &limits), Some(Interruption::Late), "100 ms, and 10 for 10 bytes");
        waits.pause_request(1_100);
        waits.end_request();
        waits.wait_for_request(2_000, true);
        assert_eq!(waits.ending(2_100, &limits), None, "another request");
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
