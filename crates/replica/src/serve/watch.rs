use std::cell::{Cell, RefCell};
use std::io;

use crate::membership::PeerLimits;

/// How often a connection is checked, within the time after which a silent node counts as frozen.
const LOOKS: u64 = 4;
/// What a connection that holds others up has to move within that time.
const MOVED_BYTES_MIN: usize = 64 << 10;
/// A peer that has less than this to acknowledge may only be far away.
const UNACKNOWLEDGED_BYTES_MIN: u64 = MOVED_BYTES_MIN as u64;

/// Checks from time to time whether a peer does its part.
pub(super) struct Watch {
    /// Since when the connection could be ended.
    since_ms: Cell<u64>,
    /// What was read and written since then, and what the peer took while nothing could be.
    moved_bytes: Cell<usize>,
    /// At the last look.
    unacknowledged_bytes: Cell<Option<u64>>,
    began_ms: u64,
    end: RefCell<Option<io::Result<()>>>,
}

/// What there is to be seen of a connection.
#[expect(clippy::struct_excessive_bools, reason = "facts, none of which follows from the others")]
pub(super) struct ConnectionState {
    pub(super) has_greeted: bool,
    /// Nothing is under way, in either direction.
    pub(super) is_idle: bool,
    /// There are answers that the peer has not read.
    pub(super) has_unread: bool,
    /// It is the peer's turn.
    pub(super) waits_for_peer: bool,
    /// Others wait for memory that this connection has.
    pub(super) holds_others_up: bool,
    /// There are as many connections as there may be.
    pub(super) is_one_of_too_many: bool,
    /// What the peer has not acknowledged of the answers that were written, if the connection waits for memory: others may wait
    /// behind it.
    pub(super) unacknowledged_bytes: Option<u64>,
}

impl Watch {
    pub(super) fn begins(now_ms: u64) -> Watch {
        Watch {
            since_ms: Cell::new(now_ms),
            moved_bytes: Cell::new(0),
            unacknowledged_bytes: Cell::new(None),
            began_ms: now_ms,
            end: RefCell::default(),
        }
    }

    pub(super) fn every_ms(limits: &PeerLimits) -> u64 {
        (limits.peer_timeout_ms / LOOKS).max(1)
    }

    /// Bytes came, or went.
    pub(super) fn moved(&self, bytes: usize) {
        self.moved_bytes.set(self.moved_bytes.get().saturating_add(bytes));
    }

    /// How the connection has to end, if it has to.
    pub(super) fn end(&self) -> Option<io::Result<()>> {
        self.end.take()
    }

    /// Looks; answers whether the connection has to end now.
    pub(super) fn look(
        &self,
        state: &ConnectionState,
        limits: &PeerLimits,
        (greeting_timeout_ms, now_ms): (u64, u64),
    ) -> bool {
        let end = self.verdict(state, limits.peer_timeout_ms, greeting_timeout_ms, now_ms);
        let is_over = end.is_some();
        if is_over {
            *self.end.borrow_mut() = end;
        }
        is_over
    }

    fn verdict(
        &self,
        state: &ConnectionState,
        timeout_ms: u64,
        greeting_timeout_ms: u64,
        now_ms: u64,
    ) -> Option<io::Result<()>> {
        let late = |line: String| Some(Err(io::Error::new(io::ErrorKind::TimedOut, line)));
        if !state.has_greeted && now_ms.saturating_sub(self.began_ms) > greeting_timeout_ms {
            return late(format!("no greeting within {greeting_timeout_ms} ms"));
        }
        let before = self.unacknowledged_bytes.replace(state.unacknowledged_bytes);
        if let (Some(before), Some(now)) = (before, state.unacknowledged_bytes) {
            self.moved(usize::try_from(before.saturating_sub(now)).unwrap_or(usize::MAX));
        }
        let is_unused = state.is_idle && state.is_one_of_too_many && self.moved_bytes.get() == 0;
        let is_in_the_way = state.holds_others_up && state.waits_for_peer
            || state.is_one_of_too_many && state.has_unread
            || state.unacknowledged_bytes.is_some_and(|bytes| bytes >= UNACKNOWLEDGED_BYTES_MIN);
        let is_slow = is_in_the_way && self.moved_bytes.get() < MOVED_BYTES_MIN;
        if !is_unused && !is_slow {
            self.since_ms.set(now_ms);
            self.moved_bytes.set(0);
            return None;
        }
        if now_ms.saturating_sub(self.since_ms.get()) <= timeout_ms {
            return None;
        }
        // One that is not used is made again when it is needed.
        if is_unused { Some(Ok(())) } else { late(format!("it held others up for {timeout_ms} ms")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: ConnectionState = ConnectionState {
        has_greeted: true,
        is_idle: false,
        has_unread: false,
        waits_for_peer: true,
        holds_others_up: true,
        is_one_of_too_many: false,
        unacknowledged_bytes: None,
    };

    /// At which of these looks, 100 ms apart, it has to end, with a timeout of 300 ms.
    fn ends_at(looks: impl IntoIterator<Item = (ConnectionState, usize)>) -> Option<(usize, bool)> {
        let watch = Watch::begins(0);
        looks.into_iter().enumerate().find_map(|(index, (state, bytes))| {
            watch.moved(bytes);
            let end = watch.verdict(&state, 300, 1_000, 100 * (index as u64 + 1))?;
            Some((index, end.is_ok()))
        })
    }

    #[test]
    fn who_holds_others_up_and_does_nothing_is_ended() {
        assert_eq!(ends_at((0..20).map(|_| (BUSY, 0))), Some((3, false)));
        assert_eq!(ends_at((0..20).map(|_| (BUSY, 10_000))), Some((3, false)));
        assert_eq!(ends_at((0..20).map(|_| (BUSY, MOVED_BYTES_MIN / 2))), None);
        assert_eq!(ends_at((0..20).map(|_| (ConnectionState { holds_others_up: false, ..BUSY }, 0))), None);
        assert_eq!(ends_at((0..20).map(|_| (ConnectionState { waits_for_peer: false, ..BUSY }, 0))), None);
    }

    /// They would get the memory of those that are ended, one after the other, and do the same with it.
    #[test]
    fn who_waits_in_front_of_others_and_takes_nothing_is_ended_too() {
        let waiting = |unacknowledged_bytes: u64| ConnectionState {
            waits_for_peer: false,
            holds_others_up: false,
            unacknowledged_bytes: Some(unacknowledged_bytes),
            ..BUSY
        };
        assert_eq!(ends_at((0..20).map(|_| (waiting(UNACKNOWLEDGED_BYTES_MIN), 13))), Some((3, false)));
        let taking = |bytes: u64| (0..20).map(move |look| (waiting(4_000_000 - bytes * look), 13));
        assert_eq!(ends_at(taking(1_000)), Some((3, false)));
        assert_eq!(ends_at(taking(MOVED_BYTES_MIN as u64 / 2)), None);
        // What shows that the node is alive is on its way at every look.
        assert_eq!(ends_at((0..20).map(|_| (waiting(13), 13))), None);
        // One that gets the memory at last has taken nothing by that.
        let served = (0..20).map(|look| (if look < 2 { waiting(4_000_000) } else { BUSY }, 13));
        assert_eq!(ends_at(served), Some((3, false)));
    }

    #[test]
    fn who_is_not_used_goes_where_there_are_too_many() {
        let idle =
            || ConnectionState { is_idle: true, holds_others_up: false, is_one_of_too_many: true, ..BUSY };
        assert_eq!(ends_at((0..20).map(|_| (idle(), 0))), Some((3, true)));
        assert_eq!(ends_at((0..20).map(|_| (idle(), 1))), None);
        assert_eq!(
            ends_at((0..20).map(|_| (ConnectionState { is_one_of_too_many: false, ..idle() }, 0))),
            None
        );
    }

    #[test]
    fn who_does_not_read_goes_where_there_are_too_many() {
        let unread =
            || ConnectionState { has_unread: true, holds_others_up: false, is_one_of_too_many: true, ..BUSY };
        assert_eq!(ends_at((0..20).map(|_| (unread(), 0))), Some((3, false)));
        assert_eq!(ends_at((0..20).map(|_| (unread(), MOVED_BYTES_MIN / 2))), None);
        assert_eq!(
            ends_at((0..20).map(|_| (ConnectionState { is_one_of_too_many: false, ..unread() }, 0))),
            None
        );
    }

    #[test]
    fn who_does_not_greet_is_ended() {
        let silent = || ConnectionState { has_greeted: false, holds_others_up: false, ..BUSY };
        assert_eq!(ends_at((0..20).map(|_| (silent(), 1))), Some((10, false)));
    }
}
