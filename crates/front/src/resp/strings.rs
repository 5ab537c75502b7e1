use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::task::Poll;

use bytes::{Bytes, BytesMut};
use ladoga_model::VALUE_BYTES_MAX;
use ladoga_resp::{Reply, Request};
use ladoga_service::{Error, KeyValue, Lookup, Precondition, StoredCell, Value};

use super::arguments::{Condition, SetOptions, condition_of_delete, digest, integer};
use super::call::{StoreCall, check_write};
use super::expected::READS_MAX;
use super::failed::Failed;
use super::found::{Effect, Found, NewLifetime, reply_to};
use super::in_flight::{Begun, later};
use super::pauses::is_full;
use super::served::{CommandResult, LargeReply, Served, length};
use super::table::Verb;

/// Keys of one request that are written side by side, or looked up without their values.
pub(super) const KEYS_AT_A_TIME: usize = 128;
/// A value that `SETRANGE` makes up to this length takes no room of its own.
const SET_RANGE_BYTES_UNCOUNTED: u64 = 256 << 10;
/// Keys that a request writes before other connections have their turn.
const KEYS_IN_TURN: usize = 8 << 10;
// Who is served beside others begins all of its writes at once, so that they take effect in their order.
const _: () = assert!(KEYS_IN_TURN > KEYS_AT_A_TIME);

/// `GET`: answered at once if memory can tell.
pub(super) fn get<K: KeyValue>(call: &StoreCall<K>, request: &Request) -> Begun {
    match call.look_up(&request[1]) {
        Lookup::Now(Ok(Some(StoredCell { value: Some(Value::Inline(value)), .. }))) => {
            Begun::Served(Served::value(Some(value)))
        }
        Lookup::Now(Ok(Some(StoredCell { value: None, .. }) | None)) => Begun::Served(Served::NULL),
        Lookup::Now(Err(error)) if !is_full(&error) => Begun::Served(Served::of(Err(call.failed(error)))),
        found => {
            let (call, key) = (call.clone(), request.bytes(1));
            later(async move {
                let found = found.wait().await;
                Ok(value_of(call.unless_full(&key, found).await?))
            })
        }
    }
}

/// The value of a cell: one that is not in memory is streamed.
fn value_of(cell: Option<StoredCell>) -> Served {
    match cell.and_then(|cell| cell.value) {
        None => Served::NULL,
        Some(Value::Inline(value)) => Served::value(Some(value)),
        Some(Value::Large(large)) => Served::Large(LargeReply::whole(large)),
    }
}

/// What is under some keys of a request.
pub(super) async fn values<K: KeyValue>(
    call: &StoreCall<K>,
    request: &Request,
    numbers: std::ops::Range<usize>,
) -> Vec<Served> {
    let keys: Vec<&[u8]> = numbers.clone().map(|number| &request[number]).collect();
    if keys.len() > 1 {
        call.service.fetch_ahead(&keys);
    }
    let value = |number: usize| async move {
        let cell = call.cell(&request[number]).await;
        Ok::<_, Failed>(Served::of(cell.map(value_of)))
    };
    all(numbers.collect(), value).await.unwrap_or_default()
}

/// `MGET`: each key by itself, unless it is part of a transaction.
pub(super) async fn mget<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let mut found = Vec::with_capacity(request.len() - 1);
    for first in (1..request.len()).step_by(READS_MAX) {
        let numbers = first..request.len().min(first + READS_MAX);
        for value in values(&call, &request, numbers).await {
            call.hold(size_of::<Served>() as u64 + value.held_bytes())?;
            found.push(value);
        }
    }
    Ok(Served::Many(found))
}

/// A future, and what it has come to.
type Working<F, R> = (Pin<Box<F>>, Option<Result<R, Failed>>);

/// What each of some futures comes to, some of them at a time, begun in their order; the first error, once all have ended.
pub(super) async fn all<T, F, R>(of: Vec<T>, work: impl Fn(T) -> F) -> Result<Vec<R>, Failed>
where
    F: Future<Output = Result<R, Failed>>,
{
    let (mut results, mut of) = (Vec::with_capacity(of.len()), of.into_iter().peekable());
    while of.peek().is_some() {
        let mut working: Vec<Working<F, R>> =
            of.by_ref().take(KEYS_AT_A_TIME).map(|one| (Box::pin(work(one)), None)).collect();
        std::future::poll_fn(|context| {
            let mut is_done = true;
            for (future, done) in &mut working {
                if done.is_none() {
                    match future.as_mut().poll(context) {
                        Poll::Ready(result) => *done = Some(result),
                        Poll::Pending => is_done = false,
                    }
                }
            }
            if is_done { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        results.extend(working.into_iter().filter_map(|(_, done)| done));
        if of.peek().is_some() {
            tokio::task::yield_now().await;
        }
    }
    results.into_iter().collect()
}

/// `SET`, and the commands that are `SET` with an option.
pub(super) async fn set<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let options = SetOptions::parse(&request, 3)?;
    let (key, value) = (request.bytes(1), request.bytes(2));
    let precondition = match (&options, call.is_in_transaction()) {
        (SetOptions { gets: true, .. } | SetOptions { life: NewLifetime::Kept, .. }, _) => None,
        (SetOptions { condition: Condition::None, .. }, _) => Some(Precondition::None),
        (SetOptions { condition: Condition::Absent, .. }, false) => Some(Precondition::IfNoneMatchAny),
        (SetOptions { condition: Condition::Present, .. }, false) => Some(Precondition::IfMatchAny),
        _ => None,
    };
    let Some(precondition) = precondition else {
        return set_by_value(&call, &request, options).await;
    };
    let ttl = if let NewLifetime::For(ttl) = options.life { Some(ttl) } else { None };
    written(call.put(key, value, precondition, ttl).await, (Served::OK, Served::NULL))
}

/// What a write with a condition is answered.
fn written<T>(written: Result<T, Failed>, (done, not_done): (Served, Served)) -> CommandResult {
    match written {
        Ok(_) => Ok(done),
        Err(Failed::Service(Error::PreconditionFailed { .. })) => Ok(not_done),
        Err(failed) => Err(failed),
    }
}

/// The same where the value before has to be looked at.
async fn set_by_value<K: KeyValue>(
    call: &StoreCall<K>,
    request: &Request,
    SetOptions { condition, gets, life }: SetOptions,
) -> CommandResult {
    let (key, value) = (request.bytes(1), request.bytes(2));
    call.update(key, gets || condition.needs_value(), |found| {
        let is_true = condition.is_true_of(found.map(|found| &found.value[..]), request);
        let served = match (gets, is_true) {
            (true, _) => reply_to(found),
            (false, true) => Served::OK,
            (false, false) => Served::NULL,
        };
        Ok((if is_true { Effect::Put(value.clone(), life) } else { Effect::Nothing }, served))
    })
    .await
}

pub(super) async fn setnx<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let (key, value) = (request.bytes(1), request.bytes(2));
    if call.is_in_transaction() {
        let decide = |found: Option<&Found>| match found {
            Some(_) => (Effect::Nothing, Served::flag(false)),
            None => (Effect::Put(value.clone(), NewLifetime::Forever), Served::flag(true)),
        };
        return call.update(key, false, |found| Ok(decide(found))).await;
    }
    let put = call.put(key, value, Precondition::IfNoneMatchAny, None).await;
    written(put, (Served::flag(true), Served::flag(false)))
}

/// `SETEX` and `PSETEX`.
pub(super) async fn setex<K: KeyValue>(
    call: StoreCall<K>,
    request: Request,
    (unit, command): (super::arguments::Unit, &'static str),
) -> CommandResult {
    let ttl = unit.ttl(&request[2], command)?;
    call.put(request.bytes(1), request.bytes(3), Precondition::None, Some(ttl)).await?;
    Ok(Served::OK)
}

/// `MSET`: in one step as part of a transaction, else each key by itself.
pub(super) async fn mset<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    check_pairs(&request, "mset")?;
    put_pairs(&call, &request).await?;
    Ok(Served::OK)
}

/// `MSETNX`: nothing is written if one of the keys is there at the beginning. Each key is written by itself.
pub(super) async fn msetnx<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    check_pairs(&request, "msetnx")?;
    let (of, asked) = (&call, &request);
    let keys = (1..request.len()).step_by(2).collect();
    // Not what was found: that may be more than there is memory for.
    let look =
        |number| async move { of.find_unchanged(&asked[number], false).await.map(|found| found.is_some()) };
    if all(keys, look).await?.contains(&true) {
        return Ok(Served::flag(false));
    }
    put_pairs(&call, &request).await?;
    Ok(Served::flag(true))
}

fn check_pairs(request: &Request, command: &str) -> Result<(), Failed> {
    if request.len() % 2 == 1 {
        return Ok(());
    }
    Err(Failed::Told(Reply::error(format_args!("wrong number of arguments for '{command}' command"))))
}

/// There may be half a million pairs: other clients have their turns meanwhile.
async fn put_pairs<K: KeyValue>(call: &StoreCall<K>, request: &Request) -> Result<(), Failed> {
    let keys = || (1..request.len()).step_by(2).enumerate();
    for (count, number) in keys() {
        give_way(count).await;
        check_write(&request[number], request[number + 1].len() as u64)?;
    }
    let put = |number| call.put(request.bytes(number), request.bytes(number + 1), Precondition::None, None);
    if call.is_in_transaction() {
        for (count, number) in keys() {
            give_way(count).await;
            put(number).await?;
        }
        return Ok(());
    }
    // Side by side: of a key that is there twice, the last value counts.
    let mut last = HashMap::with_capacity(request.len() / 2);
    for (count, number) in keys() {
        give_way(count).await;
        last.insert(&request[number], number);
    }
    let mut numbers = Vec::with_capacity(last.len());
    for (count, number) in keys() {
        give_way(count).await;
        if last[&request[number]] == number {
            numbers.push(number);
        }
    }
    all(numbers, put).await.map(drop)
}

/// Lets others have a turn after some keys.
pub(super) async fn give_way(count: usize) {
    if count % KEYS_IN_TURN == KEYS_IN_TURN - 1 {
        tokio::task::yield_now().await;
    }
}

pub(super) async fn getset<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let value = request.bytes(2);
    call.update(request.bytes(1), true, |found| {
        Ok((Effect::Put(value.clone(), NewLifetime::Forever), reply_to(found)))
    })
    .await
}

pub(super) async fn getdel<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    call.update(request.bytes(1), true, |found| Ok((Effect::Delete, reply_to(found)))).await
}

pub(super) async fn delex<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let condition = condition_of_delete(&request)?;
    call.update(request.bytes(1), condition != Condition::None, |found| {
        let is_there = found.is_some();
        let is_true = is_there && condition.is_true_of(found.map(|found| &found.value[..]), &request);
        Ok((if is_true { Effect::Delete } else { Effect::Nothing }, Served::flag(is_true)))
    })
    .await
}

pub(super) async fn digest_of<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let found = call.find(&request[1], true).await?;
    Ok(found.map_or(Reply::Null, |found| Reply::Text(digest(&found.value))).into())
}

pub(super) async fn append<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    call.update(request.bytes(1), true, |found| {
        let Some(found) = found else {
            let value = request.bytes(2);
            return Ok((Effect::Put(value.clone(), NewLifetime::Forever), Served::integer(value.len())));
        };
        if found.bytes + request[2].len() as u64 > VALUE_BYTES_MAX {
            return Err(Failed::value_too_large());
        }
        let value = Bytes::from([&found.value[..], &request[2]].concat());
        let bytes = value.len();
        Ok((Effect::Put(value, NewLifetime::Kept), Served::integer(bytes)))
    })
    .await
}

pub(super) async fn setrange<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let offset = u64::try_from(integer(&request[2])?).map_err(|_| Failed::err("offset is out of range"))?;
    let new = request.bytes(3);
    let end = offset.saturating_add(new.len() as u64);
    // As much as the value before it, which may be far shorter.
    let _room = match end {
        SET_RANGE_BYTES_UNCOUNTED..=VALUE_BYTES_MAX => Some(call.take_room(end).await?),
        _ => None,
    };
    call.update(request.bytes(1), true, |found| {
        let before = found.map(|found| found.value.clone()).unwrap_or_default();
        if new.is_empty() {
            return Ok((Effect::Nothing, Served::integer(before.len())));
        }
        let end = offset.checked_add(new.len() as u64).filter(|end| *end <= VALUE_BYTES_MAX);
        let end = end.ok_or_else(Failed::value_too_large)? as usize;
        let mut value = BytesMut::zeroed(end.max(before.len()));
        value[..before.len()].copy_from_slice(&before);
        value[offset as usize..end].copy_from_slice(&new);
        let bytes = value.len();
        Ok((Effect::Put(value.freeze(), NewLifetime::Kept), Served::integer(bytes)))
    })
    .await
}

pub(super) async fn strlen<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let cell = call.cell(&request[1]).await?;
    Ok(Served::integer(cell.and_then(|cell| cell.value).map_or(0, |value| length(&value))))
}

/// `GETRANGE`, and `SUBSTR`, as it was called once.
pub(super) async fn getrange<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let (start, end) = (integer(&request[2])?, integer(&request[3])?);
    let cell = call.cell(&request[1]).await?;
    Ok(match cell.and_then(|cell| cell.value) {
        None => Served::value(Some(Bytes::new())),
        Some(Value::Inline(value)) => {
            let range = part(start, end, value.len());
            // By itself: what is counted of a reply is its length, and a part would keep the whole value.
            Served::value(Some(Bytes::copy_from_slice(&value[range])))
        }
        Some(Value::Large(value)) => {
            let range = part(start, end, value.bytes as usize);
            if range.is_empty() {
                return Ok(Served::value(Some(Bytes::new())));
            }
            Served::Large(LargeReply { value, from: range.start as u64, bytes: range.len() as u64 })
        }
    })
}

/// Which bytes of so many are from `start` to `end`, both included and counted from the end if they are negative.
fn part(start: i64, end: i64, bytes: usize) -> std::ops::Range<usize> {
    let length = bytes as i64;
    if start < 0 && end < 0 && start > end {
        return 0..0;
    }
    let from = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (start, end) = (from(start), from(end).min(length - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// Which command `SETEX` and its like are.
pub(super) const fn unit_of(verb: Verb) -> (super::arguments::Unit, &'static str) {
    match verb {
        Verb::PSetEx => (super::arguments::Unit::MILLISECONDS, "psetex"),
        _ => (super::arguments::Unit::SECONDS, "setex"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_redis_takes_it_for() {
        for (start, end, expected) in [
            (0, 3, 0..4),
            (-3, -1, 7..10),
            (0, -1, 0..10),
            (5, 100, 5..10),
            (7, 3, 0..0),
            (-1, -3, 0..0),
            (10, 11, 0..0),
            (-100, 2, 0..3),
            (-100, -50, 0..1),
            (i64::MIN, i64::MAX, 0..10),
        ] {
            assert_eq!(part(start, end, 10), expected, "{start} {end}");
        }
        assert_eq!(part(0, -1, 0), 0..0);
    }
}
