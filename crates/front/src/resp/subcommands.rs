//! What stands behind the names of commands that are several: which of them there are, and how many arguments each takes. A request
//! is checked before it is served or queued, so that a transaction with a mistake in it does nothing.

use ladoga_resp::{Reply, Request};

use super::arguments::is;
use super::failed::{Failed, shown};
use super::table::{COMMANDS, Command, Verb};

/// One of the commands that share a name.
#[derive(Debug)]
pub(super) struct Subcommand {
    /// In capital letters.
    pub(super) name: &'static str,
    /// How many arguments it takes, both names included; at least so many if it is negative.
    arity: i64,
    /// What stands behind its name, as its help says.
    arguments: &'static str,
}

const HELP: Subcommand = new("HELP", 2, "");
const ACL: [Subcommand; 2] = [HELP, new("WHOAMI", 2, "")];
const CLIENT: [Subcommand; 10] = [
    new("GETNAME", 2, ""),
    HELP,
    new("ID", 2, ""),
    new("INFO", 2, ""),
    new("LIST", -2, " [TYPE normal | ID <id> ...]"),
    new("NO-EVICT", 3, " ON|OFF"),
    new("NO-TOUCH", 3, " ON|OFF"),
    new("REPLY", 3, " ON|OFF|SKIP"),
    new("SETINFO", 4, " LIB-NAME|LIB-VER <value>"),
    new("SETNAME", 3, " <name>"),
];
const COMMAND: [Subcommand; 6] = [
    new("COUNT", 2, ""),
    new("DOCS", -2, " [<command-name> ...]"),
    new("GETKEYS", -4, " <full-command>"),
    HELP,
    new("INFO", -2, " [<command-name> ...]"),
    new("LIST", -2, " [FILTERBY MODULE|ACLCAT|PATTERN <value>]"),
];
const CONFIG: [Subcommand; 4] = [
    new("GET", -3, " <pattern> ..."),
    HELP,
    new("RESETSTAT", 2, ""),
    new("SET", -4, " <directive> <value> ..."),
];
const LATENCY: [Subcommand; 4] =
    [HELP, new("HISTORY", 3, " <event>"), new("LATEST", 2, ""), new("RESET", -2, " [<event> ...]")];
const MEMORY: [Subcommand; 2] = [HELP, new("USAGE", -3, " <key> [SAMPLES <count>]")];
const MODULE: [Subcommand; 2] = [HELP, new("LIST", 2, "")];
const OBJECT: [Subcommand; 5] = [
    new("ENCODING", 3, " <key>"),
    new("FREQ", 3, " <key>"),
    HELP,
    new("IDLETIME", 3, " <key>"),
    new("REFCOUNT", 3, " <key>"),
];
const SLOWLOG: [Subcommand; 4] = [new("GET", -2, " [<count>]"), HELP, new("LEN", 2, ""), new("RESET", 2, "")];

const fn new(name: &'static str, arity: i64, arguments: &'static str) -> Subcommand {
    Subcommand { name, arity, arguments }
}

/// Those of a command; none if it is one by itself.
const fn of(verb: Verb) -> &'static [Subcommand] {
    match verb {
        Verb::Acl => &ACL,
        Verb::Client => &CLIENT,
        Verb::Command => &COMMAND,
        Verb::Config => &CONFIG,
        Verb::Latency => &LATENCY,
        Verb::Memory => &MEMORY,
        Verb::Module => &MODULE,
        Verb::Object => &OBJECT,
        Verb::SlowLog => &SLOWLOG,
        _ => &[],
    }
}

/// That a request names a subcommand that there is, with as many arguments as that takes. `words` are the request or the part of one
/// that is a command by itself.
pub(super) fn check<'r>(
    command: &Command,
    mut words: impl ExactSizeIterator<Item = &'r [u8]>,
) -> Result<(), Failed> {
    let (known, arguments) = (of(command.verb), words.len());
    if known.is_empty() {
        return Ok(());
    }
    let Some(found) = words.nth(1) else { return Ok(()) };
    let Some(subcommand) = known.iter().find(|known| is(found, known.name)) else {
        return Err(unknown(command.name, found));
    };
    if subcommand.takes(arguments) { Ok(()) } else { Err(wrong_arguments(command.name, subcommand.name)) }
}

/// The one that a request names, in the table's letters. Requests that name none have been refused before.
pub(super) fn name(verb: Verb, request: &Request) -> &'static str {
    let found = request.get(1).unwrap_or_default();
    of(verb).iter().find(|known| is(found, known.name)).map_or("", |known| known.name)
}

/// What `HELP` answers.
pub(super) fn help(verb: Verb) -> Reply {
    let command = COMMANDS.iter().find(|command| command.verb == verb);
    let name = command.map_or_else(String::new, |command| command.name.to_uppercase());
    let head = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let lines = of(verb).iter().map(|known| [known.name, known.arguments].concat());
    Reply::Array(std::iter::once(head).chain(lines).map(Reply::text).collect())
}

fn unknown(command: &str, found: &[u8]) -> Failed {
    let (command, found) = (command.to_uppercase(), shown(found));
    Failed::Told(Reply::error(format_args!("unknown subcommand '{found}'. Try {command} HELP.")))
}

fn wrong_arguments(command: &str, subcommand: &str) -> Failed {
    let subcommand = subcommand.to_lowercase();
    Failed::Told(Reply::error(format_args!("wrong number of arguments for '{command}|{subcommand}' command")))
}

impl Subcommand {
    const fn takes(&self, arguments: usize) -> bool {
        if self.arity >= 0 { arguments as i64 == self.arity } else { arguments as i64 >= -self.arity }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use bytes::BytesMut;
    use ladoga_resp::{Parser, ParserLimits, Step};

    use super::super::dispatch;
    use super::super::table::COMMANDS;
    use super::*;

    /// Every command with as few arguments as it takes, and each of its subcommands with as few as that takes.
    pub(in super::super) fn shortest() -> Vec<(&'static Command, Vec<&'static str>)> {
        let mut all = Vec::new();
        for command in &COMMANDS {
            let by_itself = vec!["x"; command.arity.unsigned_abs() as usize - 1];
            all.push((command, [vec![command.name], by_itself].concat()));
            for known in of(command.verb) {
                let rest = vec!["x"; known.arity.unsigned_abs() as usize - 2];
                all.push((command, [vec![command.name, known.name], rest].concat()));
            }
        }
        all
    }

    /// A request of these words, as it arrives in one line.
    pub(in super::super) fn request(words: &[&str]) -> Request {
        let limits = ParserLimits {
            arguments_max: 16,
            argument_bytes_max: 100,
            large_bytes_min: 50,
            request_bytes_max: 1_000,
            is_of_stranger: false,
        };
        let mut input = BytesMut::from([&words.join(" "), "\r\n"].concat().as_str());
        match Parser::new(limits).next(&mut input) {
            Ok(Step::Request(request)) => request,
            other => panic!("{other:?} of {words:?}"),
        }
    }

    #[test]
    fn a_subcommand_takes_as_many_arguments_as_the_table_says() {
        let checked = |words: &[&str]| dispatch::command(&request(words)).map(|command| command.name);
        for (command, shortest) in shortest() {
            assert!(of(command.verb).is_sorted_by(|one, next| one.name < next.name), "{}", command.name);
            let [_, second, rest @ ..] = &shortest[..] else { continue };
            let Some(known) = of(command.verb).iter().find(|known| known.name == *second) else { continue };
            assert_eq!(checked(&shortest), Ok(command.name), "{shortest:?}");
            let small = [command.name, &second.to_lowercase()];
            assert_eq!(checked(&[&small, rest].concat()), Ok(command.name), "{shortest:?}");
            if !rest.is_empty() {
                assert!(checked(&small).is_err(), "{shortest:?}");
            }
            let longer = checked(&[&shortest[..], &["x"]].concat());
            assert_eq!(longer.is_ok(), known.arity < 0, "{shortest:?}");
        }
        assert!(checked(&["client", "x"]).is_err() && checked(&["command"]).is_ok());
    }
}
