//! Who may do what by commands: the same tokens as by HTTP, and what Redis says to those who may not.

use std::sync::Arc;

use ladoga_access::{Denied, Presented, Scope, Scopes};
use ladoga_resp::{Reply, Request};
use ladoga_service::KeyValue;

use super::arguments::is;
use super::scan::pattern_range;
use super::serve::Conversation;
use super::table::{Command, Verb};
use crate::auth::{Asker, AuditLine, Caller, Guard, PendingLine, Unauthorized};

const NO_AUTH: &str = "NOAUTH Authentication required.";
const WRONG_PASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_KEY: &str = "NOPERM this user has no permissions to access one of the keys used as arguments";

/// What a command needs, whichever its keys are. What tells something about what was there reads it, too.
const fn needs(verb: Verb) -> &'static [Scope] {
    match verb {
        Verb::Digest
        | Verb::Exists
        | Verb::ExpireTime
        | Verb::Get
        | Verb::GetRange
        | Verb::Memory
        | Verb::MGet
        | Verb::Object
        | Verb::PExpireTime
        | Verb::PTtl
        | Verb::StrLen
        | Verb::SubStr
        | Verb::Touch
        | Verb::Ttl
        | Verb::Type
        | Verb::Watch => &[Scope::Read],
        Verb::MSet | Verb::MSetNx | Verb::PSetEx | Verb::Set | Verb::SetEx | Verb::SetNx => &[Scope::Write],
        Verb::Append
        | Verb::Copy
        | Verb::Decr
        | Verb::DecrBy
        | Verb::Expire
        | Verb::ExpireAt
        | Verb::GetEx
        | Verb::GetSet
        | Verb::Incr
        | Verb::IncrBy
        | Verb::IncrByFloat
        | Verb::Persist
        | Verb::PExpire
        | Verb::PExpireAt
        | Verb::SetRange => &[Scope::Read, Scope::Write],
        Verb::Del | Verb::DelEx | Verb::Unlink => &[Scope::Delete],
        Verb::GetDel => &[Scope::Read, Scope::Delete],
        Verb::Rename | Verb::RenameNx => &[Scope::Read, Scope::Write, Scope::Delete],
        Verb::DbSize | Verb::Keys | Verb::RandomKey | Verb::Scan => &[Scope::Range],
        Verb::Flush => &[Scope::Delete, Scope::Admin],
        Verb::Acl
        | Verb::Auth
        | Verb::Client
        | Verb::Cluster
        | Verb::Command
        | Verb::Config
        | Verb::Discard
        | Verb::Echo
        | Verb::Exec
        | Verb::Hello
        | Verb::Info
        | Verb::LadogaReplicas
        | Verb::Latency
        | Verb::Lolwut
        | Verb::Module
        | Verb::Multi
        | Verb::Ping
        | Verb::Quit
        | Verb::Reset
        | Verb::Select
        | Verb::SlowLog
        | Verb::Time
        | Verb::Unwatch
        | Verb::Wait => &[],
    }
}

/// Whether a command costs nothing of a token's rate. Those that begin and end a transaction must not be refused for it: what is sent
/// behind a `MULTI` would be done by itself. The commands in between are paid for.
const fn is_free(verb: Verb) -> bool {
    matches!(verb, Verb::Multi | Verb::Exec | Verb::Discard | Verb::Unwatch)
}

/// The same of a request: what its options ask for beside what its command does.
fn needed(verb: Verb, request: &Request) -> Scopes {
    /// Of `SET` and `DELEX`. A value as long as one of them may ask for more than it needs.
    const READING: [&str; 5] = ["GET", "IFEQ", "IFNE", "IFDEQ", "IFDNE"];
    let own = Scopes::of(needs(verb));
    let options_from = match verb {
        Verb::Set => 3,
        Verb::DelEx => 2,
        _ => return own,
    };
    let reads = request.from(options_from).any(|option| READING.iter().any(|word| is(option, word)));
    if reads { own.and(Scopes::of(&[Scope::Read])) } else { own }
}

/// Whether all that a request is about is what a token is about.
fn check_keys(caller: &Caller, command: &Command, request: &Request) -> Result<(), Denied> {
    match command.verb {
        Verb::Scan | Verb::Keys => {
            let (start, end) = pattern_range(command.verb, request);
            caller.check_range(&start, end.as_deref())
        }
        Verb::DbSize | Verb::RandomKey | Verb::Flush => caller.check_range(b"", None),
        // Its table says that it has no keys, as in Redis, where it depends on its subcommand.
        Verb::Memory => request.get(2).map_or(Ok(()), |key| caller.check_key(key)),
        _ => {
            let keys = command.key_positions(request.len()).filter_map(|position| request.get(position));
            keys.into_iter().try_for_each(|key| caller.check_key(key))
        }
    }
}

/// Whether a token allows a request.
fn check_request(caller: &Caller, command: &Command, request: &Request) -> Result<(), Reply> {
    let checked = caller.check(needed(command.verb, request));
    checked
        .and_then(|()| check_keys(caller, command, request))
        .map_err(|denied| not_permitted(denied, command))
}

/// What Redis says of a transaction that does not happen.
fn discarded(why: Reply) -> Reply {
    match why {
        Reply::Error(why) => Reply::Error(format!("EXECABORT Transaction discarded because of: {why}")),
        why => why,
    }
}

fn not_permitted(denied: Denied, command: &Command) -> Reply {
    match denied {
        Denied::Scope(_) => {
            let name = command.name;
            Reply::Error(format!("NOPERM this user has no permissions to run the '{name}' command"))
        }
        Denied::Key | Denied::Range | Denied::AllKeys => Reply::Error(NO_KEY.to_owned()),
    }
}

impl<K: KeyValue> Conversation<'_, K> {
    /// Refuses a request of someone who may not say it.
    pub(super) fn authorize(&mut self, command: &Command, request: &Request) -> Result<(), Reply> {
        if self.door.door.access.guard.is_none() || command.flags.contains(&"no_auth") {
            return Ok(());
        }
        let authorized = self.authorize_by_token(command, request);
        if authorized.is_err() {
            self.record(command, request, "refused");
        }
        authorized
    }

    fn authorize_by_token(&mut self, command: &Command, request: &Request) -> Result<(), Reply> {
        let caller = self.caller()?;
        check_request(caller, command, request)?;
        if is_free(command.verb) {
            return Ok(());
        }
        let bytes = request.from(1).map(<[u8]>::len).sum::<usize>() as u64;
        self.admit(bytes)
    }

    /// Refuses what was queued since the tokens were those of this number, if a newer token of who speaks does not allow all of it.
    pub(super) fn authorize_queued(
        &mut self,
        queued: &[(&'static Command, Request)],
        generation: Option<u64>,
    ) -> Result<(), Reply> {
        if self.door.door.access.guard.is_none() {
            return Ok(());
        }
        let caller = self.caller().map_err(discarded)?;
        if generation == Some(caller.generation()) {
            return Ok(());
        }
        let refused = queued.iter().find_map(|(command, request)| {
            let why = check_request(caller, command, request).err()?;
            Some((why, *command, request))
        });
        let Some((why, command, request)) = refused else { return Ok(()) };
        self.record(command, request, "refused");
        Err(discarded(why))
    }

    /// Refuses a value that is about to arrive, as the whole request would be.
    pub(super) fn authorize_large(&mut self, command: &Command, key: &[u8]) -> Result<(), Reply> {
        if self.door.door.access.guard.is_none() {
            return Ok(());
        }
        let authorized = self.authorize_large_by_token(command, key);
        if authorized.is_err() {
            self.record_words(&[name_of(command).as_bytes(), b" ", key].concat(), "refused");
        }
        authorized
    }

    fn authorize_large_by_token(&mut self, command: &Command, key: &[u8]) -> Result<(), Reply> {
        let caller = self.caller()?;
        let checked = caller.check(Scopes::of(needs(command.verb))).and_then(|()| caller.check_key(key));
        checked.map_err(|denied| not_permitted(denied, command))?;
        // It may be refused yet. Who has used up its bytes is so at once.
        self.admit(0)
    }

    /// The same once what stands behind the value is known: its options may ask for more.
    pub(super) fn authorize_options(&mut self, command: &Command, request: &Request) -> Result<(), Reply> {
        if self.door.door.access.guard.is_none() {
            return Ok(());
        }
        let needed = needed(command.verb, request);
        let checked = self.caller()?.check(needed).map_err(|denied| not_permitted(denied, command));
        if checked.is_err() {
            self.record(command, request, "refused");
        }
        checked
    }

    fn admit(&mut self, bytes: u64) -> Result<(), Reply> {
        let now_ns = self.door.door.core.clock.monotonic_ns();
        // What it was sent before counts before it is sent more.
        self.settle();
        self.caller()?.admit(now_ns, bytes).map_err(Reply::error)
    }

    /// Has who speaks pay for what was sent.
    pub(super) fn settle(&self) {
        self.link.settle(self.session.caller.as_ref());
    }

    /// Has who speaks pay for a value that is about to be read.
    pub(super) fn charge(&self, bytes: u64) {
        if let Some(caller) = &self.session.caller {
            caller.charge(self.door.door.core.clock.monotonic_ns(), bytes);
        }
    }

    /// Who speaks, as long as its token counts.
    fn caller(&mut self) -> Result<&Caller, Reply> {
        let wall_ms = self.door.now_ms();
        if self.session.caller.as_mut().is_some_and(|caller| caller.still(wall_ms).is_err()) {
            self.settle();
            self.session.caller = None;
        }
        if self.session.caller.is_none()
            && let Some(guard) = &self.door.door.access.guard
        {
            guard.refused();
        }
        self.session.caller.as_ref().ok_or_else(|| Reply::Error(NO_AUTH.to_owned()))
    }

    /// Whether somebody has said who it is, or need not.
    pub(super) fn is_known(&self) -> bool {
        self.door.door.access.guard.is_none() || self.session.caller.is_some()
    }

    /// Lets somebody in by a name and a secret, or by a whole token whose name goes for `default`.
    pub(super) fn log_in(&mut self, guard: &Arc<Guard>, name: &[u8], secret: &[u8]) -> Result<(), Reply> {
        let presented =
            if name == b"default" { Presented::parse(secret) } else { Presented::of(name, secret) };
        match Caller::let_in(guard, presented, self.door.now_ms()) {
            Ok(caller) => {
                self.settle();
                self.session.caller = Some(caller);
                Ok(())
            }
            // Who was let in before stays so, as in Redis.
            Err(
                Unauthorized::Nothing | Unauthorized::Scheme | Unauthorized::Invalid | Unauthorized::Peer,
            ) => {
                self.record_words(b"AUTH", "refused");
                Err(Reply::Error(WRONG_PASS.to_owned()))
            }
        }
    }

    /// Writes a request into the audit log: its command and its keys, and nothing that could be a secret.
    pub(super) fn record(&self, command: &Command, request: &Request, status: &str) {
        if self.door.door.access.audit.is_some() {
            self.record_words(&words_of(command, request), status);
        }
    }

    /// What the audit log has of a command that changes something, once it is known what becomes of it.
    pub(super) fn audited(&self, command: &Command, request: &Request) -> Option<PendingLine> {
        let access = &self.door.door.access;
        let audit = access.audit.as_ref()?;
        if command.verb != Verb::Flush && !(audit.has_writes() && command.is_write()) {
            return None;
        }
        let who = self.session.caller.as_ref().map(|caller| caller.id().into());
        let asker = Asker { who, from: Some(self.link.peer_ip()) };
        let (clock, what) = (&self.door.door.core.clock, words_of(command, request));
        Some(PendingLine::new(audit, clock, asker, (what, true)))
    }

    fn record_words(&self, what: &[u8], status: &str) {
        let Some(audit) = &self.door.door.access.audit else { return };
        let who = self.session.caller.as_ref().map(Caller::id);
        audit.record(&AuditLine {
            wall_ms: self.door.now_ms(),
            who,
            from: Some(self.link.peer_ip()),
            what,
            status,
        });
    }
}

/// A command as the audit log has it.
fn name_of(command: &Command) -> String {
    command.name.to_ascii_uppercase()
}

/// A command and its keys. There can be very many keys, and no line has place for them.
fn words_of(command: &Command, request: &Request) -> Vec<u8> {
    const WORDS_BYTES_MAX: usize = 4 << 10;
    let mut words = name_of(command).into_bytes();
    for key in command.key_positions(request.len()).filter_map(|position| request.get(position)) {
        words.push(b' ');
        words.extend_from_slice(key);
        if words.len() > WORDS_BYTES_MAX {
            break;
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::table::COMMANDS;
    use super::*;

    #[test]
    fn a_command_that_changes_something_needs_more_than_to_read() {
        for command in &COMMANDS {
            let needed = Scopes::of(needs(command.verb));
            let changes = needed.contains(Scope::Write) || needed.contains(Scope::Delete);
            assert_eq!(changes, command.is_write(), "{}", command.name);
            let has_keys = command.keys.0 > 0;
            assert!(!has_keys || needed != Scopes::NONE, "{}", command.name);
        }
    }

    #[test]
    fn who_has_no_token_can_say_who_it_is_and_leave() {
        let open = COMMANDS.iter().filter(|command| command.flags.contains(&"no_auth"));
        assert!(open.map(|command| command.name).eq(["auth", "hello", "quit", "reset"]));
    }
}
