use bytes::Bytes;
use ladoga_resp::{Reply, Request};
use ladoga_service::Seen;

use super::arguments::is;
use super::failed::Failed;
use super::held::HeldPermits;
use super::overlay::Watched;
use super::table::{Command, Verb};
use super::transaction_room::TransactionRoom;

/// What a connection was told between `MULTI` and `EXEC`, and which keys it watches.
#[derive(Default)]
pub(super) struct Transaction {
    /// None outside of `MULTI`.
    pub(super) queued: Option<Vec<(&'static Command, Request)>>,
    /// As of which tokens of the node it began, if there are any.
    pub(super) generation: Option<u64>,
    /// For what is queued and watched.
    pub(super) room: TransactionRoom,
    /// Whether something in it was wrong, so that nothing of it is done.
    pub(super) is_spoiled: bool,
    pub(super) watched: Vec<Watched>,
}

impl Transaction {
    /// Whether a command is queued now, and not served.
    pub(super) fn takes(&self, command: &Command) -> bool {
        let is_its_own = matches!(
            command.verb,
            Verb::Exec | Verb::Discard | Verb::Multi | Verb::Watch | Verb::Quit | Verb::Reset
        );
        self.queued.is_some() && !is_its_own
    }

    /// Whether it has begun.
    pub(super) const fn is_open(&self) -> bool {
        self.queued.is_some()
    }

    /// What was said cannot be understood. Nothing of it is going to be done, whatever has become of what is watched.
    pub(super) fn spoil(&mut self) {
        if self.queued.is_some() {
            *self = Transaction { queued: Some(Vec::new()), is_spoiled: true, ..Transaction::default() };
        }
    }

    /// The same, with what is replied. An `EXEC` that cannot be understood ends the transaction, as with Redis.
    pub(super) fn misunderstand(&mut self, request: &Request, reply: Reply) -> Reply {
        match reply {
            Reply::Error(words) if is(&request[0], "EXEC") => {
                *self = Transaction::default();
                let words = words.strip_prefix("ERR ").unwrap_or(&words);
                Reply::Error(format!("EXECABORT Transaction discarded because of: {words}"))
            }
            reply => {
                self.spoil();
                reply
            }
        }
    }

    /// A command may not be said. If it is the end of the transaction, it ends it nevertheless: what comes behind it does not belong
    /// to it, and would be kept for an `EXEC` that never comes.
    pub(super) fn refuse(&mut self, verb: Verb, request: &Request, reply: Reply) -> Reply {
        if verb == Verb::Discard {
            *self = Transaction::default();
        }
        self.misunderstand(request, reply)
    }

    /// Keeps a request until `EXEC`, by itself: not what else arrived with it.
    pub(super) fn queue(
        &mut self,
        command: &'static Command,
        request: &Request,
        held: &HeldPermits,
    ) -> Reply {
        if !is_allowed(command.verb, request) {
            self.spoil();
            return Reply::error("Command not allowed inside a transaction");
        }
        if self.is_spoiled {
            // It is not going to be done.
            return Reply::Simple("QUEUED");
        }
        let request = request.detached();
        if let Err(full) = self.room.hold(request.memory_bytes() as u64, held) {
            self.spoil();
            return Failed::from(full).into_reply();
        }
        if let Some(queued) = &mut self.queued {
            queued.push((command, request));
        }
        Reply::Simple("QUEUED")
    }

    /// Watches a key from now on, by itself: not what arrived with it.
    pub(super) fn watch(&mut self, key: &[u8], seen: Seen, held: &HeldPermits) -> Result<(), Failed> {
        let bytes = key.len() + size_of::<Watched>();
        self.room.hold(bytes as u64, held)?;
        self.watched.push((Bytes::copy_from_slice(key), seen));
        Ok(())
    }

    pub(super) fn begin(&mut self, generation: Option<u64>) -> Reply {
        if self.queued.is_some() {
            return Reply::error("MULTI calls can not be nested");
        }
        self.queued = Some(Vec::new());
        self.generation = generation;
        Reply::OK
    }

    pub(super) fn discard(&mut self) -> Reply {
        if self.queued.is_none() {
            return Reply::error("DISCARD without MULTI");
        }
        *self = Transaction::default();
        Reply::OK
    }

    pub(super) fn unwatch(&mut self) -> Reply {
        *self = Transaction::default();
        Reply::OK
    }
}

/// Whether a command may stand in a transaction: what cannot be done in one step may not, nor what would keep the replies of a
/// transaction from being as many as its commands.
fn is_allowed(verb: Verb, request: &Request) -> bool {
    match verb {
        Verb::Flush => false,
        Verb::Client => !is(&request[1], "REPLY"),
        _ => true,
    }
}
