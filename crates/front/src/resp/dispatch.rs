//! From a request to what serves it.

use ladoga_resp::{Reply, Request};
use ladoga_service::KeyValue;
use xxhash_rust::xxh3::xxh3_64;

use super::arguments::{Condition, SetOptions, is};
use super::call::StoreCall;
use super::expected::READS_MAX;
use super::failed::{Failed, REPEATED_BYTES_MAX};
use super::found::NewLifetime;
use super::in_flight::{Begun, Claim, Wave, later};
use super::served::{CommandResult, Served};
use super::table::{Command, Verb, find};
use super::{describe, expiry, flush, keys, numbers, scan, server, strings, subcommands, together};
use crate::door::Door;

/// A request with more is served alone: its value may have to be written elsewhere before it has its turn.
const WAVE_BYTES_MAX: usize = 32 << 10;

fn now(result: CommandResult) -> Begun {
    Begun::Served(Served::of(result))
}

/// The command that a request names, if it and its subcommand take as many arguments as there are.
pub(super) fn command(request: &Request) -> Result<&'static Command, Reply> {
    let Some(command) = find(&request[0]) else { return Err(unknown(request)) };
    if command.takes(request.len()) {
        let checked = subcommands::check(command, request.from(0));
        return checked.map(|()| command).map_err(Failed::into_reply);
    }
    let name = command.name;
    Err(Reply::error(format_args!("wrong number of arguments for '{name}' command")))
}

/// Whether it is a line of an HTTP request, as a page makes a browser send it to any port: the lines of its body would be commands. The
/// second line of such a request is its `Host`, whatever its method is.
pub(super) fn is_of_http(request: &Request) -> bool {
    is(&request[0], "POST") || is(&request[0], "Host:")
}

/// What Redis says to a command that it does not know; as there, text ends with a zero.
fn unknown(request: &Request) -> Reply {
    fn text(bytes: &[u8], bytes_max: usize) -> &[u8] {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        &bytes[..end.min(bytes_max)]
    }
    let mut arguments = Vec::new();
    for argument in request.from(1) {
        if arguments.len() >= REPEATED_BYTES_MAX {
            break;
        }
        let argument = text(argument, REPEATED_BYTES_MAX - arguments.len());
        arguments.extend([b"'", argument, b"' "].concat());
    }
    let name = text(&request[0], REPEATED_BYTES_MAX);
    let words = [b"ERR unknown command '", name, b"', with args beginning with: ", &arguments];
    Reply::RawError(words.concat())
}

/// What a request claims of what is served side by side.
pub(super) fn claim<K>(command: &Command, request: &Request, door: &Door<K>) -> Claim {
    claim_on(command, request, (door.is_alone, door.cluster.is_some()))
}

/// The same on a node on its own, on one of a cluster, or neither.
fn claim_on(command: &Command, request: &Request, (is_alone, is_of_cluster): (bool, bool)) -> Claim {
    let wave = wave(command, request, is_alone);
    let reads = reads(command, request);
    // A cluster gives a write that something newer is in the way of another version: it would be newer than those behind it.
    if wave != Wave::Writes || !is_of_cluster {
        return Claim { wave, reads, writes: Vec::new() };
    }
    let positions = command.key_positions(request.len());
    Claim { wave, reads, writes: positions.map(|position| xxh3_64(&request[position])).collect() }
}

/// With which others a request may be served side by side.
fn wave(command: &Command, request: &Request, is_alone: bool) -> Wave {
    match command.verb {
        _ if request.memory_bytes() > WAVE_BYTES_MAX => Wave::Alone,
        Verb::MGet if request.len() > 1 + READS_MAX => Wave::Alone,
        Verb::Get
        | Verb::MGet
        | Verb::StrLen
        | Verb::Exists
        | Verb::Touch
        | Verb::Type
        | Verb::Ttl
        | Verb::PTtl
        | Verb::ExpireTime
        | Verb::PExpireTime
        | Verb::GetRange
        | Verb::SubStr
        | Verb::Digest
        | Verb::Object
        | Verb::Memory => Wave::Reads,
        Verb::Set if sets_without_looking(request) => Wave::Writes,
        Verb::SetEx | Verb::PSetEx => Wave::Writes,
        // With more, others would begin before all of its keys have.
        Verb::MSet if !is_alone && request.len() <= 1 + 2 * strings::KEYS_AT_A_TIME => Wave::Writes,
        _ if is_alone && is_decided_when_written(command.verb, request) => Wave::Updates,
        Verb::Ping | Verb::Echo | Verb::Time | Verb::Select => Wave::Any,
        _ => Wave::Alone,
    }
}

/// How many keys a request reads at a time.
fn reads(command: &Command, request: &Request) -> usize {
    match command.verb {
        Verb::Set | Verb::SetEx | Verb::PSetEx | Verb::MSet => 0,
        verb if is_decided_when_written(verb, request) => 0,
        Verb::MGet => request.len() - 1,
        Verb::Ping | Verb::Echo | Verb::Time | Verb::Select => 0,
        _ => 1,
    }
}

/// Whether a node on its own decides a request in one step, inside the commit, without anything that is read before.
fn is_decided_when_written(verb: Verb, request: &Request) -> bool {
    match verb {
        Verb::Incr | Verb::Decr | Verb::IncrBy | Verb::DecrBy | Verb::SetNx => true,
        Verb::MSet => together::writes_several(verb, request),
        Verb::Del | Verb::Unlink => request.len() == 2,
        Verb::Set => SetOptions::parse(request, 3).is_ok_and(|options| {
            let SetOptions { condition, gets, life } = options;
            !gets && life != NewLifetime::Kept && matches!(condition, Condition::Absent | Condition::Present)
        }),
        _ => false,
    }
}

/// Whether a `SET` does the same whatever is there.
fn sets_without_looking(request: &Request) -> bool {
    let is_expiry = |option: &[u8]| ["EX", "PX", "EXAT", "PXAT"].into_iter().any(|word| is(option, word));
    match request.len() {
        3 => true,
        5 => is_expiry(&request[3]),
        _ => false,
    }
}

/// Begins to serve a request that is not about its connection.
pub(super) fn begin<K: KeyValue>(call: &StoreCall<K>, command: &Command, request: Request) -> Begun {
    let verb = command.verb;
    if call.may_transact() && together::writes_several(verb, &request) {
        return later(together::alone(call.clone(), verb, request));
    }
    match verb {
        Verb::Get => strings::get(call, &request),
        Verb::Set => later(strings::set(call.clone(), request)),
        Verb::SetNx => later(strings::setnx(call.clone(), request)),
        Verb::SetEx | Verb::PSetEx => later(strings::setex(call.clone(), request, strings::unit_of(verb))),
        Verb::MGet => later(strings::mget(call.clone(), request)),
        Verb::MSet => later(strings::mset(call.clone(), request)),
        Verb::MSetNx => later(strings::msetnx(call.clone(), request)),
        Verb::GetSet => later(strings::getset(call.clone(), request)),
        Verb::GetDel => later(strings::getdel(call.clone(), request)),
        Verb::DelEx => later(strings::delex(call.clone(), request)),
        Verb::Digest => later(strings::digest_of(call.clone(), request)),
        Verb::Append => later(strings::append(call.clone(), request)),
        Verb::SetRange => later(strings::setrange(call.clone(), request)),
        Verb::StrLen => later(strings::strlen(call.clone(), request)),
        Verb::GetRange | Verb::SubStr => later(strings::getrange(call.clone(), request)),
        Verb::Incr | Verb::Decr | Verb::IncrBy | Verb::DecrBy => {
            let (call, key) = (call.clone(), request.bytes(1));
            later(async move { numbers::increment(call, key, numbers::amount(verb, &request)?).await })
        }
        Verb::IncrByFloat => later(numbers::increment_by_float(call.clone(), request)),
        Verb::Expire | Verb::PExpire | Verb::ExpireAt | Verb::PExpireAt => {
            later(expiry::expire(call.clone(), request, expiry::unit_of(verb)))
        }
        Verb::Persist => later(expiry::persist(call.clone(), request.bytes(1))),
        Verb::GetEx => later(expiry::getex(call.clone(), request)),
        Verb::Ttl | Verb::PTtl | Verb::ExpireTime | Verb::PExpireTime => {
            later(expiry::time_left(call.clone(), request.bytes(1), verb))
        }
        Verb::Del | Verb::Unlink => later(keys::del(call.clone(), request)),
        Verb::Exists | Verb::Touch => later(keys::exists(call.clone(), request)),
        Verb::Type => later(keys::type_of(call.clone(), request)),
        Verb::Rename => later(keys::rename(call.clone(), request, false)),
        Verb::RenameNx => later(keys::rename(call.clone(), request, true)),
        Verb::Copy => later(keys::copy(call.clone(), request)),
        Verb::Object => later(keys::object(call.clone(), request)),
        Verb::Memory => later(keys::memory(call.clone(), request)),
        Verb::Scan => later(scan::scan(call.clone(), request)),
        Verb::Keys => later(scan::keys(call.clone(), request)),
        Verb::Flush => later(flush::flush(call.clone(), request)),
        Verb::DbSize => later(scan::count(call.clone())),
        Verb::RandomKey => later(scan::random_key(call.clone())),
        _ => now(about_the_node(call, verb, &request)),
    }
}

/// Serves a command that asks for nothing that is stored.
fn about_the_node<K: KeyValue>(call: &StoreCall<K>, verb: Verb, request: &Request) -> CommandResult {
    match verb {
        Verb::Ping => server::ping(request),
        Verb::Echo => Ok(Served::value(Some(request.bytes(1)))),
        Verb::Time => Ok(server::time(call)),
        Verb::Wait => server::wait(call, request),
        Verb::Lolwut => Ok(server::lolwut()),
        Verb::Cluster => server::cluster(),
        Verb::Config => server::config(call, request),
        Verb::Info => Ok(server::info(call, request)),
        Verb::Command => describe::command(request),
        Verb::Select => server::select(request),
        Verb::Module | Verb::SlowLog | Verb::Latency => server::nothing_of(verb, request),
        _ => unreachable!("it is served above, or by its connection"),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use ladoga_resp::{Parser, ParserLimits, Step};

    use super::*;

    const ALONE: (bool, bool) = (true, false);
    const OF_CLUSTER: (bool, bool) = (false, true);
    const OF_CASSANDRA: (bool, bool) = (false, false);

    fn claim(words: &str, door: (bool, bool)) -> Claim {
        let limits = ParserLimits {
            arguments_max: 8,
            argument_bytes_max: 100,
            large_bytes_min: 50,
            request_bytes_max: 1000,
            is_of_stranger: false,
        };
        let step = Parser::new(limits).next(&mut BytesMut::from(words));
        let Ok(Step::Request(request)) = step else { panic!("it is a request") };
        let Ok(command) = command(&request) else { panic!("it is a command") };
        claim_on(command, &request, door)
    }

    /// A write that got another version while it was under way was newer than one that was sent behind it.
    #[test]
    fn plain_writes_of_one_key_are_side_by_side_but_for_a_cluster() {
        let writes = |keys: &[&str]| {
            let writes = keys.iter().map(|key| xxh3_64(key.as_bytes())).collect();
            Claim { wave: Wave::Writes, reads: 0, writes }
        };
        for (words, keys) in [
            ("SET a 1\r\n", &["a"][..]),
            ("SET a 1 EX 9\r\n", &["a"]),
            ("SETEX a 9 1\r\n", &["a"]),
            ("MSET a 1 b 2 a 3\r\n", &["a", "b", "a"]),
        ] {
            assert_eq!(claim(words, OF_CLUSTER), writes(keys), "{words}");
            assert_eq!(claim(words, OF_CASSANDRA), writes(&[]), "{words}");
        }
        assert_eq!(claim("SET a 1\r\n", ALONE), writes(&[]));
        for words in ["GET a\r\n", "SETNX a 1\r\n", "PING\r\n"] {
            assert!(claim(words, OF_CLUSTER).writes.is_empty(), "{words}");
        }
    }
}
