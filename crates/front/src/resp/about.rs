//! Commands about a connection.

use ladoga_model::Replicas;
use ladoga_resp::{Dialect, Reply, Request, parse_integer};
use ladoga_service::KeyValue;

use super::arguments::is;
use super::failed::Failed;
use super::serve::{Conversation, Parting};
use super::served::{CommandResult, Served};
use super::server::REDIS_VERSION;
use super::session::Replies;
use super::subcommands;
use super::table::{Command, Verb};

/// What Redis says to those who greet before they have said who they are.
const HELLO_FIRST: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option \
                           can be used to authenticate the client and select the RESP protocol version at the same time";

/// Who everybody is on a node without tokens.
const DEFAULT_USER: &str = "default";

/// The longest name that a connection or a library has.
const NAME_BYTES_MAX: usize = 1 << 10;

impl<K: KeyValue> Conversation<'_, K> {
    /// Serves a command that is about this connection.
    pub(super) async fn serve_session(
        &mut self,
        command: &Command,
        request: Request,
    ) -> Result<Served, Parting> {
        match command.verb {
            Verb::Multi | Verb::Exec | Verb::Discard | Verb::Watch | Verb::Unwatch => {
                self.serve_transaction(command.verb, &request).await
            }
            verb => Ok(self.tell_session(verb, &request)),
        }
    }

    /// The same for one that can stand in a transaction.
    pub(super) fn tell_session(&mut self, verb: Verb, request: &Request) -> Served {
        Served::of(match verb {
            Verb::Hello => self.hello(request),
            Verb::Auth => self.auth(request).map(|()| Served::OK),
            Verb::Client => self.client(request),
            Verb::Reset => {
                self.settle();
                self.session.reset();
                Ok(Reply::Simple("RESET").into())
            }
            Verb::Acl => Ok(self.acl(request)),
            Verb::LadogaReplicas => self.replicas(request),
            // By `EXEC`, nothing is watched any more.
            Verb::Unwatch => Ok(Served::OK),
            _ => Ok(Served::Last(Reply::OK)),
        })
    }

    /// `HELLO [2|3 [AUTH NAME PASSWORD] [SETNAME NAME]]`.
    fn hello(&mut self, request: &Request) -> CommandResult {
        let mut dialect = self.session.dialect;
        if let Some(version) = request.get(1) {
            let no_number = || Failed::err("Protocol version is not an integer or out of range");
            dialect = match parse_integer(version).ok_or_else(no_number)? {
                2 => Dialect::Resp2,
                3 => Dialect::Resp3,
                _ => {
                    let words = "NOPROTO unsupported protocol version";
                    return Err(Failed::Told(Reply::Error(words.to_owned())));
                }
            };
        }
        let (mut name, mut at, mut user) = (None, 2, None);
        while let Some(option) = request.get(at) {
            if is(option, "AUTH") && at + 2 < request.len() {
                user = Some((&request[at + 1], &request[at + 2]));
                at += 3;
            } else if is(option, "SETNAME") && at + 1 < request.len() {
                name = Some(client_name(&request[at + 1], "Client names")?);
                at += 2;
            } else {
                return Err(Failed::of_word("Syntax error in HELLO option", option));
            }
        }
        if let Some((user, secret)) = user {
            self.check_user(user, secret)?;
        }
        if !self.is_known() {
            return Err(Failed::Told(Reply::Error(HELLO_FIRST.to_owned())));
        }
        self.session.dialect = dialect;
        if let Some(name) = name {
            self.session.name = name;
        }
        let protocol = if dialect == Dialect::Resp3 { 3 } else { 2 };
        let fields = [
            ("server", Reply::text("redis")),
            ("version", Reply::text(REDIS_VERSION)),
            ("proto", Reply::Integer(protocol)),
            ("id", Reply::Integer(self.session.id as i64)),
            ("mode", Reply::text("standalone")),
            ("role", Reply::text("master")),
            ("modules", Reply::Array(Vec::new())),
        ];
        Ok(Reply::Map(fields.map(|(name, value)| (Reply::text(name), value)).into()).into())
    }

    /// `AUTH [NAME] SECRET`.
    fn auth(&mut self, request: &Request) -> Result<(), Failed> {
        match request.len() {
            2 if self.door.door.access.guard.is_some() => self.check_user(b"default", &request[1]),
            2 => Err(Failed::err(
                "AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            )),
            3 => self.check_user(&request[1], &request[2]),
            _ => Err(Failed::syntax()),
        }
    }

    /// `ACL WHOAMI`. Tokens are administered by files, and not by commands.
    fn acl(&self, request: &Request) -> Served {
        match subcommands::name(Verb::Acl, request) {
            "HELP" => subcommands::help(Verb::Acl).into(),
            _ => Reply::text(self.user().to_owned()).into(),
        }
    }

    /// Who speaks: a token, or who everybody is without one.
    fn user(&self) -> &str {
        self.session.caller.as_ref().map_or(DEFAULT_USER, |caller| caller.id())
    }

    /// Without tokens there is nobody to be, and any secret will do.
    fn check_user(&mut self, user: &[u8], secret: &[u8]) -> Result<(), Failed> {
        if let Some(guard) = self.door.door.access.guard.clone() {
            return self.log_in(&guard, user, secret).map_err(Failed::Told);
        }
        if user == b"default" {
            return Ok(());
        }
        let words = "WRONGPASS invalid username-password pair or user is disabled.";
        Err(Failed::Told(Reply::Error(words.to_owned())))
    }

    /// `LADOGA.REPLICAS [ACK/FROM]`: how many copies requests of this connection ask for.
    fn replicas(&mut self, request: &Request) -> CommandResult {
        if request.len() > 2 {
            return Err(Failed::syntax());
        }
        if let Some(text) = request.get(1) {
            let parsed = Replicas::parse(Some(text), None, None, self.session.nodes());
            self.session.replicas = parsed.map_err(|error| Failed::err(&error.to_string()))?;
            return Ok(Served::OK);
        }
        let Replicas { ack, from } = self.session.replicas;
        Ok(Reply::Text(format!("{ack}/{from}")).into())
    }

    fn client(&mut self, request: &Request) -> CommandResult {
        match subcommands::name(Verb::Client, request) {
            "ID" => Ok(Served::integer(self.session.id)),
            "HELP" => Ok(subcommands::help(Verb::Client).into()),
            "INFO" => Ok(Reply::Verbatim(self.describe()).into()),
            "LIST" => self.list(request),
            "GETNAME" if self.session.name.is_empty() => Ok(Served::NULL),
            "GETNAME" => Ok(Reply::text(self.session.name.clone()).into()),
            "SETNAME" => {
                self.session.name = client_name(&request[2], "Client names")?;
                Ok(Served::OK)
            }
            "SETINFO" => self.library(&request[2], &request[3]),
            "REPLY" => self.reply_mode(&request[2]),
            _ if is(&request[2], "ON") || is(&request[2], "OFF") => Ok(Served::OK),
            _ => Err(Failed::syntax()),
        }
    }

    /// `CLIENT LIST [TYPE normal | ID NUMBER ...]`: of all connections, the one that asks.
    fn list(&self, request: &Request) -> CommandResult {
        let own = || Reply::Verbatim(self.describe()).into();
        match (request.get(2), request.len()) {
            (None, _) => Ok(own()),
            (Some(option), 4) if is(option, "TYPE") => match &request[3] {
                kind if is(kind, "NORMAL") => Ok(own()),
                kind if ["MASTER", "REPLICA", "SLAVE", "PUBSUB"].iter().any(|known| is(kind, known)) => {
                    Ok(Reply::Verbatim(String::new()).into())
                }
                kind => Err(Failed::of_word("Unknown client type", kind)),
            },
            (Some(option), 4..) if is(option, "ID") => {
                let mut is_asked_for = false;
                for id in request.from(3) {
                    let id = parse_integer(id).ok_or_else(|| Failed::err("Invalid client ID"))?;
                    is_asked_for |= id == self.session.id as i64;
                }
                Ok(if is_asked_for { own() } else { Reply::Verbatim(String::new()).into() })
            }
            _ => Err(Failed::syntax()),
        }
    }

    fn library(&mut self, what: &[u8], value: &[u8]) -> CommandResult {
        if is(what, "LIB-NAME") {
            self.session.library.0 = client_name(value, "lib-name")?;
        } else if is(what, "LIB-VER") {
            self.session.library.1 = client_name(value, "lib-ver")?;
        } else {
            return Err(Failed::of_word("Unrecognized option", what));
        }
        Ok(Served::OK)
    }

    fn reply_mode(&mut self, mode: &[u8]) -> CommandResult {
        if is(mode, "ON") {
            self.session.reply(Replies::On);
            return Ok(Served::OK);
        }
        // They begin with this request.
        let replies = if is(mode, "OFF") {
            Replies::Off
        } else if is(mode, "SKIP") {
            Replies::SkipsThis
        } else {
            return Err(Failed::syntax());
        };
        self.session.reply(replies);
        Ok(Served::Silent)
    }

    /// A line about this connection, in the form that Redis has for it.
    fn describe(&self) -> String {
        let session = &self.session;
        let (peer, own) = self.link.ends();
        let age = self.door.now_ms().saturating_sub(session.connected_ms) / 1_000;
        let resp = if session.dialect == Dialect::Resp3 { 3 } else { 2 };
        format!(
            "id={} addr={peer} laddr={own} fd=0 name={} age={age} idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 cmd=client \
             user={} resp={resp} lib-name={} lib-ver={}\n",
            session.id,
            session.name,
            self.user(),
            session.library.0,
            session.library.1
        )
    }
}

/// A name that can stand in a line of `CLIENT LIST`.
fn client_name(name: &[u8], what: &str) -> Result<String, Failed> {
    let is_plain = name.iter().all(u8::is_ascii_graphic);
    if !is_plain {
        let words = format_args!("{what} cannot contain spaces, newlines or special characters.");
        return Err(Failed::Told(Reply::error(words)));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Failed::Told(Reply::error(format_args!("{what} have {NAME_BYTES_MAX} bytes at most"))));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}
