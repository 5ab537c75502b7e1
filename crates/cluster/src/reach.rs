//! How far a data directory was written, as the other nodes remember it: so a node finds out that its directory was rolled
//! back.
//!
//! Each process of a node is a *session*, with a random number. (A process begins another session, with the next number of its own,
//! if a second process ran as its node.) What a peer remembers of earlier sessions must have been on the disk when the current session began. If it was not, the
//! directory is older than what its node acknowledged.

/// The bits of a session that its process draws. Those above count the sessions of the process.
const DRAWN: u64 = u64::MAX >> 16;

/// The first session of a process that drew this number; of 0, none.
pub(crate) const fn first_session(random: u64) -> u64 {
    let drawn = random & DRAWN;
    if drawn == 0 && random != 0 { 1 } else { drawn }
}

/// The session that follows this one in the same process; of none, none.
pub(crate) const fn next_session(session: u64) -> u64 {
    match session.checked_add(DRAWN + 1) {
        Some(next) if session != 0 => next,
        _ => session,
    }
}

/// Whether one process had both sessions, this one before the other: they may be heard in either order.
pub(crate) const fn is_earlier_session(session: u64, other: u64) -> bool {
    session & DRAWN == other & DRAWN && session < other
}

/// How far the directory of a node was at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reach {
    /// The newest timestamp of a write that the node acknowledged.
    pub written: u64,
    /// The node had reserved the timestamps before this one. It reserves some at each start and every few seconds, so
    /// this grows without any write, too.
    pub reserved: u64,
}

impl Reach {
    /// The further of both, in each respect.
    #[must_use]
    pub fn max(self, other: Reach) -> Reach {
        Reach { written: self.written.max(other.written), reserved: self.reserved.max(other.reserved) }
    }

    /// Whether a directory that was found like `found` cannot be one that was this far.
    pub const fn is_beyond(self, found: Reach) -> bool {
        self.written > found.written || self.reserved > found.reserved
    }
}

/// What a node remembers of another one's data directory, of one incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Memory {
    /// The session that was heard last; 0 if none was.
    pub session: u64,
    /// How far it is in that session.
    pub now: Reach,
    /// How far it was in those before.
    pub before: Reach,
}

impl Memory {
    /// The node reported how far it is. Answers whether this is another session than before.
    pub fn hear(&mut self, session: u64, reach: Reach) -> bool {
        let is_new = session != self.session;
        if is_new {
            *self = Memory { session, now: Reach::default(), before: self.before.max(self.now) };
        }
        self.now = self.now.max(reach);
        is_new
    }

    /// How far the node was before its current session.
    #[must_use]
    pub fn before(self, session: u64) -> Reach {
        if session == self.session { self.before } else { self.before.max(self.now) }
    }
}

/// What a node finds when it opens its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Opening {
    /// A random number that no other process has; 0 has no past to compare with.
    pub session: u64,
    /// The random part of the next incarnation, if the directory turns out to be older than what its node acknowledged.
    pub random: u64,
    /// What [`crate::random_of_list`] says of the list of nodes, if this node was in the list that the directory is of.
    pub random_of_list: Option<u64>,
    /// The newest timestamp in the store.
    pub written: u64,
    /// Whether the files were copied, or restored from a backup: then they may be older.
    pub is_unverified: bool,
}

/// That a directory is older than what its node acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Regression {
    /// The peer that knows.
    pub peer: crate::NodeId,
    /// How far the directory was, as that peer remembers. It is no further than `found` if the peer has met a later directory,
    /// and so no longer remembers this one.
    pub known: Reach,
    /// How far it is.
    pub found: Reach,
    /// Whether the peer had heard this process, and then heard another one as the same node.
    pub is_by_another_process: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Reach = Reach { written: 5, reserved: 10 };

    #[test]
    fn what_a_session_said_is_held_against_the_next_ones_only() {
        let mut memory = Memory::default();
        assert!(memory.hear(7, FAR));
        assert!(!memory.hear(7, Reach { written: 6, reserved: 9 }));
        let known = Reach { written: 6, reserved: 10 };
        assert_eq!((memory.before(7), memory.before(8)), (Reach::default(), known));
        assert!(memory.hear(8, Reach { written: 1, reserved: 2 }));
        assert_eq!((memory.before(8), memory.before(9)), (known, known));
    }

    #[test]
    fn the_sessions_of_a_process_have_an_order() {
        let first = first_session(u64::MAX);
        let next = next_session(first);
        assert!(is_earlier_session(first, next) && is_earlier_session(first, next_session(next)));
        assert!(!is_earlier_session(first, first) && !is_earlier_session(next, first));
        assert!(!is_earlier_session(first - 1, next), "it is another process");
        assert_eq!((first_session(1 << 48), next_session(u64::MAX)), (1, u64::MAX));
        assert_eq!((first_session(0), next_session(0)), (0, 0), "none is none");
    }

    #[test]
    fn a_directory_that_lacks_either_is_older() {
        assert!(!FAR.is_beyond(FAR) && !FAR.is_beyond(Reach { written: 7, reserved: 11 }));
        assert!(FAR.is_beyond(Reach { written: 4, reserved: 11 }));
        assert!(FAR.is_beyond(Reach { written: 7, reserved: 9 }));
    }
}
