//! What is on its way, and what can happen next.

use ladoga_model::Version;

use super::replica::{Base, From, Held};

/// What is on its way to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Message {
    Read {
        request: usize,
        to: usize,
    },
    Fetch {
        request: usize,
        to: usize,
    },
    Write {
        request: usize,
        to: usize,
        held: Held,
        from: From,
    },
    /// Was let in when nothing newer was there.
    Commit {
        request: usize,
        to: usize,
        held: Held,
        from: From,
    },
    Prepare {
        request: usize,
        to: usize,
        ballot: Version,
    },
    Accept {
        request: usize,
        to: usize,
        held: Held,
        base: Base,
        /// How many disks had been lost when the replicas were asked to promise.
        lost: usize,
    },
    Release {
        to: usize,
        ballot: Version,
    },
    /// To nobody: a read that was to wait has waited.
    Hurry {
        request: usize,
    },
    /// To nobody: who met a promise has waited, and asks again.
    AskAgain {
        request: usize,
    },
    /// To nobody: who met a promise, perhaps this one, has waited long enough.
    TakeOver {
        request: usize,
        fence: Option<Version>,
    },
}

/// What can happen next.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// A client asks for the next thing.
    Ask(usize),
    /// A message arrives, and its answer at once. That an answer comes later adds nothing: its message could have come later,
    /// or the coordinator waited for another one anyway.
    Arrive(Message),
    /// A message arrives, and its answer is lost. A client's write is sent once more.
    ArriveUnanswered(Message),
    /// A write is let in, and committed later.
    Admit(Message),
    /// This takes too long.
    Deadline(usize),
    /// The coordinator of this is gone.
    Crash(usize),
    Restart(usize),
    LoseDisk(usize),
    /// A replica that lost its disk takes over what another one has.
    Pull {
        to: usize,
        of: usize,
    },
    /// A replica does not keep its promises any more: what is planted.
    DropFences(usize),
}

impl Message {
    pub(crate) fn to(&self) -> Option<usize> {
        match *self {
            Message::Read { to, .. }
            | Message::Fetch { to, .. }
            | Message::Write { to, .. }
            | Message::Commit { to, .. }
            | Message::Prepare { to, .. }
            | Message::Accept { to, .. }
            | Message::Release { to, .. } => Some(to),
            Message::Hurry { .. } | Message::AskAgain { .. } | Message::TakeOver { .. } => None,
        }
    }

    /// For which request it is; a promise that is taken back is for none any more.
    pub(crate) fn request(&self) -> Option<usize> {
        match *self {
            Message::Read { request, .. }
            | Message::Fetch { request, .. }
            | Message::Write { request, .. }
            | Message::Commit { request, .. }
            | Message::Prepare { request, .. }
            | Message::Accept { request, .. }
            | Message::Hurry { request }
            | Message::AskAgain { request }
            | Message::TakeOver { request, .. } => Some(request),
            Message::Release { .. } => None,
        }
    }
}
