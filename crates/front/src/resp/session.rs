use std::cell::Cell;

use ladoga_model::Replicas;
use ladoga_resp::Dialect;

use super::queued::Transaction;
use crate::auth::Caller;

/// What a connection has been told.
pub(super) struct Session {
    pub(super) id: u64,
    pub(super) connected_ms: u64,
    pub(super) dialect: Dialect,
    pub(super) name: String,
    /// What the client's library is called, and its version.
    pub(super) library: (String, String),
    /// How many copies its requests ask for.
    pub(super) replicas: Replicas,
    pub(super) transaction: Transaction,
    /// On a node with tokens, who speaks, once that is said.
    pub(super) caller: Option<Caller>,
    replies: Cell<Replies>,
    nodes: u32,
}

/// What a connection has been told, without its transaction: what it is known by at another event loop.
pub(crate) struct Told {
    id: u64,
    connected_ms: u64,
    dialect: Dialect,
    name: String,
    library: (String, String),
    replicas: Replicas,
    caller: Option<Caller>,
    replies: Replies,
}

/// Whether requests are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replies {
    On,
    Off,
    /// Not this one, and not the next one.
    SkipsThis,
    /// Not this one.
    Skips,
}

impl Session {
    pub(super) fn new(id: u64, nodes: u32, now_ms: u64) -> Session {
        Session {
            id,
            connected_ms: now_ms,
            dialect: Dialect::Resp2,
            name: String::new(),
            library: (String::new(), String::new()),
            replicas: Replicas::majority_of(nodes),
            transaction: Transaction::default(),
            caller: None,
            replies: Cell::new(Replies::On),
            nodes,
        }
    }

    /// That of a connection that another event loop served before.
    pub(super) fn of(told: Told, nodes: u32) -> Session {
        let Told { id, connected_ms, dialect, name, library, replicas, caller, replies } = told;
        let begun = Session::new(id, nodes, connected_ms);
        Session { dialect, name, library, replicas, caller, replies: Cell::new(replies), ..begun }
    }

    /// Whether it can go on at another event loop: what is queued and watched cannot.
    pub(super) fn can_move(&self) -> bool {
        !self.transaction.is_open() && self.transaction.watched.is_empty()
    }

    /// What it has been told so far: what another event loop is to know of it.
    pub(super) fn told(&self) -> Told {
        Told {
            id: self.id,
            connected_ms: self.connected_ms,
            dialect: self.dialect,
            name: self.name.clone(),
            library: self.library.clone(),
            replicas: self.replicas,
            caller: self.caller.clone(),
            replies: self.replies.get(),
        }
    }

    /// It is again what it was then, without a transaction.
    pub(super) fn go_back_to(&mut self, told: Told) {
        *self = Session::of(told, self.nodes);
    }

    /// As it was at the beginning.
    pub(super) fn reset(&mut self) {
        *self = Session::new(self.id, self.nodes, self.connected_ms);
    }

    pub(super) const fn nodes(&self) -> u32 {
        self.nodes
    }

    /// What the client wants to hear. Who hears nothing skips nothing.
    pub(super) fn reply(&self, replies: Replies) {
        if replies != Replies::SkipsThis || self.replies.get() != Replies::Off {
            self.replies.set(replies);
        }
    }

    /// Whether the request in turn is answered. Asked once for each.
    pub(super) fn wants_reply(&self) -> bool {
        let (wants, next) = match self.replies.get() {
            Replies::On => (true, Replies::On),
            Replies::Off => (false, Replies::Off),
            Replies::SkipsThis => (false, Replies::Skips),
            Replies::Skips => (false, Replies::On),
        };
        self.replies.set(next);
        wants
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_skipped_as_asked_for() {
        let session = Session::new(1, 1, 0);
        assert!(session.wants_reply());
        session.reply(Replies::SkipsThis);
        assert_eq!([(); 3].map(|()| session.wants_reply()), [false, false, true]);
        session.reply(Replies::Off);
        assert_eq!([(); 2].map(|()| session.wants_reply()), [false, false]);
        session.reply(Replies::SkipsThis);
        assert_eq!([(); 3].map(|()| session.wants_reply()), [false; 3]);
    }

    #[test]
    fn what_was_told_since_can_be_taken_back() {
        let mut session = Session::new(7, 3, 5);
        session.name = "before".to_owned();
        let before = session.told();
        session.dialect = Dialect::Resp3;
        session.name = "after".to_owned();
        session.library = ("lib".to_owned(), "1".to_owned());
        session.replicas = Replicas { ack: 1, from: 1 };
        session.reply(Replies::Off);
        session.go_back_to(before);
        assert!(session.wants_reply());
        assert_eq!((session.id, session.connected_ms, session.nodes()), (7, 5, 3));
        assert_eq!((session.dialect, &*session.name), (Dialect::Resp2, "before"));
        assert_eq!((session.replicas, session.library), (Replicas::majority_of(3), Default::default()));
    }
}
