//! `COMMAND`: what commands there are.

use ladoga_resp::{Reply, Request, matches};

use super::arguments::is;
use super::failed::Failed;
use super::served::{CommandResult, Served};
use super::server::PATTERN_BYTES_MAX;
use super::subcommands;
use super::table::{COMMANDS, Command, Verb, find};

/// How many commands can be asked for at once.
const NAMES_MAX: usize = 1_024;

pub(super) fn command(request: &Request) -> CommandResult {
    let of = subcommands::name(Verb::Command, request);
    if request.len() > 2 + NAMES_MAX && of != "GETKEYS" {
        return Err(Failed::err("at most 1024 commands can be asked for"));
    }
    match of {
        "COUNT" => Ok(Served::integer(COMMANDS.len())),
        "LIST" => list(request),
        "INFO" if request.len() > 2 => {
            let rows = request.from(2).map(|name| find(name).map_or(Reply::Null, row));
            Ok(Reply::Array(rows.collect()).into())
        }
        "DOCS" => {
            let known: Vec<&Command> = match request.len() {
                2 => COMMANDS.iter().collect(),
                _ => request.from(2).filter_map(find).collect(),
            };
            let docs = known.into_iter().map(|command| (Reply::text(command.name), docs(command)));
            Ok(Reply::Map(docs.collect()).into())
        }
        "GETKEYS" => keys(request),
        "HELP" => Ok(subcommands::help(Verb::Command).into()),
        _ => Ok(Reply::Array(COMMANDS.iter().map(row).collect()).into()),
    }
}

/// The names of all commands, or of some: `FILTERBY MODULE NAME`, `ACLCAT CATEGORY` or `PATTERN PATTERN`.
fn list(request: &Request) -> CommandResult {
    let names = COMMANDS.iter().map(|command| command.name);
    let names: Vec<Reply> = match request.len() {
        2 => names.map(Reply::text).collect(),
        5 if is(&request[2], "FILTERBY") => match &request[4] {
            pattern if is(&request[3], "PATTERN") => {
                if pattern.len() > PATTERN_BYTES_MAX {
                    return Err(Failed::err("the pattern is longer than 128 bytes"));
                }
                let pattern = pattern.to_ascii_lowercase();
                names.filter(|name| matches(&pattern, name.as_bytes())).map(Reply::text).collect()
            }
            // No command is of a module, or of a category: see `row`.
            _ if is(&request[3], "MODULE") || is(&request[3], "ACLCAT") => Vec::new(),
            _ => return Err(Failed::syntax()),
        },
        _ => return Err(Failed::syntax()),
    };
    Ok(Reply::Array(names).into())
}

/// The keys of a request that stands behind `COMMAND GETKEYS`.
fn keys(request: &Request) -> CommandResult {
    let command = find(&request[2]).ok_or_else(|| Failed::err("Invalid command specified"))?;
    let arguments = request.len() - 2;
    if !command.takes(arguments) || subcommands::check(command, request.from(2)).is_err() {
        return Err(Failed::err("Invalid number of arguments specified for command"));
    }
    let positions = command.key_positions(arguments).chain(usage_position(command, request));
    // With the fewest arguments that it takes, as `OBJECT HELP`, a command may end before its first key.
    let positions = positions.filter(|position| *position < arguments);
    let keys: Vec<Reply> = positions.map(|position| Reply::Bulk(request.bytes(2 + position))).collect();
    if keys.is_empty() {
        return Err(Failed::err("The command has no key arguments"));
    }
    Ok(Reply::Array(keys).into())
}

/// Where the key of `MEMORY USAGE` is: of what stands behind `MEMORY`, that alone has one.
fn usage_position(command: &Command, request: &Request) -> Option<usize> {
    (command.verb == Verb::Memory && is(&request[3], "USAGE")).then_some(2)
}

fn row(command: &Command) -> Reply {
    let (first, last, step) = command.keys;
    Reply::Array(vec![
        Reply::text(command.name),
        Reply::Integer(command.arity),
        Reply::Set(command.flags.iter().copied().map(Reply::Simple).collect()),
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        Reply::Set(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
        Reply::Array(Vec::new()),
    ])
}

fn docs(command: &Command) -> Reply {
    let group = if command.is_of_session { "connection" } else { "string" };
    let fields = [("group", Reply::text(group)), ("arity", Reply::Integer(command.arity))];
    Reply::Map(fields.map(|(name, value)| (Reply::text(name), value)).into())
}

#[cfg(test)]
mod tests {
    use super::super::subcommands::tests::{request, shortest};
    use super::*;

    #[test]
    fn keys_are_found_in_requests_with_the_fewest_arguments() {
        for (command, words) in shortest() {
            let asked = request(&[vec!["COMMAND", "GETKEYS"], words.clone()].concat());
            let found = keys(&asked);
            let has_none = command.keys.0 == 0 || words.len() as i64 <= command.keys.0;
            let is_without_keys = has_none && words[..] != ["memory", "USAGE", "x"];
            assert_eq!(found.is_err(), is_without_keys, "{words:?}");
        }
    }

    #[test]
    fn the_key_of_memory_usage_is_found() {
        let Ok(Served::Reply(found)) = keys(&request(&["COMMAND", "GETKEYS", "MEMORY", "usage", "key"]))
        else {
            panic!("it has a key")
        };
        assert_eq!(found, Reply::Array(vec![Reply::Bulk("key".into())]));
        assert!(keys(&request(&["COMMAND", "GETKEYS", "MEMORY", "HELP"])).is_err());
    }
}
