use std::collections::HashSet;

use ladoga_model::{Ttl, check_key};
use ladoga_resp::{Reply, Request, parse_integer};
use ladoga_service::{Error, KeyValue, Precondition};

use super::arguments::{integer, is};
use super::call::StoreCall;
use super::failed::Failed;
use super::found::{Effect, Found, NewLifetime};
use super::served::{CommandResult, Served};
use super::strings::{all, give_way};
use super::subcommands;
use super::table::Verb;

/// Values up to this length are kept in one piece by Redis, which clients can ask for.
const EMBEDDED_BYTES_MAX: u64 = 44;
/// The most that a value has that is a number.
const INTEGER_BYTES_MAX: u64 = 20;
/// What a key and its value take beside their own bytes, about.
const ENTRY_BYTES: u64 = 56;

/// `DEL` and `UNLINK`: how many of the keys there were.
pub(super) async fn del<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    if request.len() == 2 && !call.is_in_transaction() {
        return del_one(&call, request.bytes(1)).await;
    }
    let (call, request) = (&call, &request);
    let mut deleted = 0;
    let keys = distinct(request).await;
    let delete = |number: usize| async move {
        call.update(request.bytes(number), false, |found| match found {
            Some(_) => Ok((Effect::Delete, true)),
            None => Ok((Effect::Nothing, false)),
        })
        .await
    };
    for was_there in all(keys, delete).await? {
        deleted += i64::from(was_there);
    }
    Ok(Served::integer(deleted))
}

/// The numbers of the keys, each key once. There may be a million: other clients have their turns meanwhile.
async fn distinct(request: &Request) -> Vec<usize> {
    let (mut known, mut numbers) = (HashSet::with_capacity(request.len()), Vec::new());
    for number in 1..request.len() {
        give_way(number).await;
        if known.insert(&request[number]) {
            numbers.push(number);
        }
    }
    numbers
}

/// The same of one key, in one step: whether there was something says the store, once it is deleted.
async fn del_one<K: KeyValue>(call: &StoreCall<K>, key: bytes::Bytes) -> CommandResult {
    if check_key(&key).is_err() {
        return Ok(Served::flag(false));
    }
    match call.delete(key, Precondition::IfMatchAny).await {
        Ok(()) => Ok(Served::flag(true)),
        Err(Failed::Service(Error::PreconditionFailed { .. })) => Ok(Served::flag(false)),
        Err(failed) => Err(failed),
    }
}

/// `EXISTS` and `TOUCH`: how many of the keys there are, each as often as it is named.
pub(super) async fn exists<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let (call, request) = (&call, &request);
    let look = |number: usize| async move {
        let cell = call.cell(&request[number]).await?;
        Ok(cell.is_some_and(|cell| cell.value.is_some()))
    };
    let found = all((1..request.len()).collect(), look).await?;
    Ok(Served::integer(found.into_iter().filter(|is_there| *is_there).count() as i64))
}

pub(super) async fn type_of<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let cell = call.cell(&request[1]).await?;
    let is_there = cell.is_some_and(|cell| cell.value.is_some());
    Ok(Reply::Simple(if is_there { "string" } else { "none" }).into())
}

/// `RENAME` and `RENAMENX`: in one step as part of a transaction; else the new key is written, then the old one deleted, each by
/// itself.
pub(super) async fn rename<K: KeyValue>(
    call: StoreCall<K>,
    request: Request,
    only_if_absent: bool,
) -> CommandResult {
    let done = if only_if_absent { Served::flag(true) } else { Served::OK };
    let (from, to) = (request.bytes(1), request.bytes(2));
    let Some(found) = call.find_unchanged(&from, true).await? else {
        return Err(Failed::err("no such key"));
    };
    if from == to {
        return Ok(if only_if_absent { Served::flag(false) } else { done });
    }
    if !put_copy(&call, &found, to, only_if_absent).await? {
        return Ok(Served::flag(false));
    }
    let still = Precondition::IfMatch([found.version].into());
    match call.delete(from, still).await {
        // Somebody wrote it meanwhile: that write came behind the renaming.
        Ok(()) | Err(Failed::Service(Error::PreconditionFailed { .. })) => Ok(done),
        Err(failed) => Err(failed),
    }
}

pub(super) async fn copy<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let (mut replaces, mut at) = (false, 3);
    while let Some(option) = request.get(at) {
        match option {
            option if is(option, "REPLACE") => replaces = true,
            option if is(option, "DB") && at + 1 < request.len() => {
                at += 1;
                if integer(&request[at])? != 0 {
                    return Err(Failed::err("DB index is out of range"));
                }
            }
            _ => return Err(Failed::syntax()),
        }
        at += 1;
    }
    let (from, to) = (request.bytes(1), request.bytes(2));
    if from == to {
        return Err(Failed::err("source and destination objects are the same"));
    }
    let Some(found) = call.find_unchanged(&from, true).await? else { return Ok(Served::flag(false)) };
    Ok(Served::flag(put_copy(&call, &found, to, !replaces).await?))
}

/// Stores what was found under another key, which may have to be absent. Answers whether it is stored.
async fn put_copy<K: KeyValue>(
    call: &StoreCall<K>,
    found: &Found,
    to: bytes::Bytes,
    only_if_absent: bool,
) -> Result<bool, Failed> {
    let life = Ttl::until_ms(found.expires_at_ms).map_or(NewLifetime::Forever, NewLifetime::For);
    call.update(to, false, |there| {
        Ok(match there {
            Some(_) if only_if_absent => (Effect::Nothing, false),
            _ => (Effect::Put(found.value.clone(), life), true),
        })
    })
    .await
}

pub(super) async fn object<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let known = subcommands::name(Verb::Object, &request);
    if known == "HELP" {
        return Ok(subcommands::help(Verb::Object).into());
    }
    let Some(mut found) = call.find(&request[2], false).await? else { return Ok(Served::NULL) };
    if known == "ENCODING" && found.bytes <= INTEGER_BYTES_MAX {
        let Some(with_value) = call.find(&request[2], true).await? else { return Ok(Served::NULL) };
        found = with_value;
    }
    match known {
        "ENCODING" => Ok(Reply::text(encoding(&found)).into()),
        "FREQ" => Err(Failed::err(
            "An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching \
             between policies at runtime LRU and LFU data will take some time to adjust.",
        )),
        "IDLETIME" => Ok(Served::integer(0)),
        _ => Ok(Served::integer(1)),
    }
}

fn encoding(found: &Found) -> &'static str {
    match found.bytes {
        1..=INTEGER_BYTES_MAX if parse_integer(&found.value).is_some() => "int",
        0..=EMBEDDED_BYTES_MAX => "embstr",
        _ => "raw",
    }
}

pub(super) async fn memory<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    if subcommands::name(Verb::Memory, &request) == "HELP" {
        return Ok(subcommands::help(Verb::Memory).into());
    }
    match request.from(3).collect::<Vec<_>>()[..] {
        [] => {}
        [option, samples] if is(option, "SAMPLES") && integer(samples)? >= 0 => {}
        _ => return Err(Failed::syntax()),
    }
    let found = call.find(&request[2], false).await?;
    let bytes = |found: Found| Reply::Integer((found.bytes + request[2].len() as u64 + ENTRY_BYTES) as i64);
    Ok(found.map_or(Reply::Null, bytes).into())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use bytes::BytesMut;
    use ladoga_resp::{Parser, ParserLimits, Step};

    use super::*;

    #[test]
    fn others_have_their_turns_while_very_many_keys_are_looked_through() {
        const KEYS: usize = 50_000;
        let mut input = BytesMut::from(&*format!("*{}\r\n$3\r\nDEL\r\n", 2 * KEYS + 1));
        for number in (0..KEYS).rev().chain(0..KEYS) {
            input.extend_from_slice(format!("$5\r\n{number:05}\r\n").as_bytes());
        }
        let limits = ParserLimits {
            arguments_max: 3 * KEYS,
            argument_bytes_max: 10,
            large_bytes_min: 10,
            request_bytes_max: 1 << 30,
            is_of_stranger: false,
        };
        let Ok(Step::Request(request)) = Parser::new(limits).next(&mut input) else { panic!("no request") };
        let mut distinct = pin!(distinct(&request));
        let mut turns = 0;
        let numbers = loop {
            turns += 1;
            if let Poll::Ready(numbers) = distinct.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                break numbers;
            }
        };
        assert!(turns > 2 * KEYS / 10_000, "{turns}");
        assert!(numbers.into_iter().eq(1..=KEYS));
    }
}
