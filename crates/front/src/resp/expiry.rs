use bytes::Bytes;
use ladoga_model::Ttl;
use ladoga_resp::{Reply, Request};
use ladoga_service::KeyValue;

use super::arguments::{GetExOption, Unit, integer, is};
use super::call::StoreCall;
use super::failed::{Failed, shown};
use super::found::{Effect, NewLifetime};
use super::served::{CommandResult, Served};
use super::table::Verb;

/// When `EXPIRE` and its like take effect.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "any of them can be said with others")]
struct When {
    not_yet: bool,
    already: bool,
    later: bool,
    earlier: bool,
}

impl When {
    fn parse(request: &Request) -> Result<When, Failed> {
        let mut when = When::default();
        for option in request.from(3) {
            match option {
                option if is(option, "NX") => when.not_yet = true,
                option if is(option, "XX") => when.already = true,
                option if is(option, "GT") => when.later = true,
                option if is(option, "LT") => when.earlier = true,
                _ => {
                    let option = shown(option);
                    return Err(Failed::Told(Reply::error(format_args!("Unsupported option {option}"))));
                }
            }
        }
        if when.not_yet && (when.already || when.later || when.earlier) {
            return Err(Failed::err("NX and XX, GT or LT options at the same time are not compatible"));
        }
        if when.later && when.earlier {
            return Err(Failed::err("GT and LT options at the same time are not compatible"));
        }
        Ok(when)
    }

    /// Whether a value may get this end. One that does not expire ends later than all others.
    const fn allows(self, before_ms: u64, end_ms: i64) -> bool {
        let expires = before_ms != 0;
        let is_later = expires && end_ms > before_ms as i64;
        let is_earlier = !expires || end_ms < before_ms as i64;
        (!self.not_yet || !expires)
            && (!self.already || expires)
            && (!self.later || is_later)
            && (!self.earlier || is_earlier)
    }
}

/// `EXPIRE` and its like: how their number is counted, and their name.
pub(super) const fn unit_of(verb: Verb) -> (Unit, &'static str) {
    match verb {
        Verb::PExpire => (Unit::MILLISECONDS, "pexpire"),
        Verb::ExpireAt => (Unit::MOMENT_SECONDS, "expireat"),
        Verb::PExpireAt => (Unit::MOMENT_MILLISECONDS, "pexpireat"),
        _ => (Unit::SECONDS, "expire"),
    }
}

pub(super) async fn expire<K: KeyValue>(
    call: StoreCall<K>,
    request: Request,
    (unit, command): (Unit, &'static str),
) -> CommandResult {
    let when = When::parse(&request)?;
    let now_ms = call.now_ms();
    let end_ms = unit.moment_ms(integer(&request[2])?, now_ms, command)?;
    call.update(request.bytes(1), false, |found| match found {
        Some(found) if when.allows(found.expires_at_ms, end_ms) => {
            Ok((ending(end_ms, now_ms, command)?, Served::flag(true)))
        }
        _ => Ok((Effect::Nothing, Served::flag(false))),
    })
    .await
}

/// The same value with another end; nothing, if that is past.
fn ending(end_ms: i64, now_ms: u64, command: &str) -> Result<Effect, Failed> {
    if end_ms <= now_ms as i64 {
        return Ok(Effect::Delete);
    }
    let ttl = Ttl::until_ms(end_ms as u64).ok_or_else(|| Failed::expire_time(command))?;
    Ok(Effect::Expire(NewLifetime::For(ttl)))
}

pub(super) async fn persist<K: KeyValue>(call: StoreCall<K>, key: Bytes) -> CommandResult {
    call.update(key, false, |found| match found {
        Some(found) if found.expires_at_ms != 0 => {
            Ok((Effect::Expire(NewLifetime::Forever), Served::flag(true)))
        }
        _ => Ok((Effect::Nothing, Served::flag(false))),
    })
    .await
}

pub(super) async fn getex<K: KeyValue>(call: StoreCall<K>, request: Request) -> CommandResult {
    let now_ms = call.now_ms();
    let option = GetExOption::parse(&request)?;
    call.update(request.bytes(1), true, |found| {
        let Some(found) = found else { return Ok((Effect::Nothing, Served::NULL)) };
        let change = match option {
            GetExOption::Until(unit, number) => {
                let number = integer(&request[number])?;
                if number <= 0 {
                    return Err(Failed::expire_time("getex"));
                }
                ending(unit.moment_ms(number, now_ms, "getex")?, now_ms, "getex")?
            }
            GetExOption::Persist if found.expires_at_ms != 0 => Effect::Expire(NewLifetime::Forever),
            GetExOption::Persist | GetExOption::Nothing => Effect::Nothing,
        };
        Ok((change, found.reply()))
    })
    .await
}

/// `TTL` and its like: how long a value is to live, or until when; -1 if for ever, -2 if there is none.
pub(super) async fn time_left<K: KeyValue>(call: StoreCall<K>, key: Bytes, verb: Verb) -> CommandResult {
    let cell = call.cell(&key).await?;
    let Some(cell) = cell.filter(|cell| cell.value.is_some()) else { return Ok(Served::integer(-2)) };
    let end_ms = cell.stamp.expires_at_ms;
    if end_ms == 0 {
        return Ok(Served::integer(-1));
    }
    let left_ms = end_ms.saturating_sub(call.now_ms());
    Ok(Served::integer(match verb {
        Verb::PTtl => left_ms,
        Verb::ExpireTime => (end_ms + 500) / 1_000,
        Verb::PExpireTime => end_ms,
        _ => (left_ms + 500) / 1_000,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_does_not_expire_ends_later_than_all_others() {
        let later = When { later: true, ..When::default() };
        let earlier = When { earlier: true, ..When::default() };
        assert!(!later.allows(0, 100) && earlier.allows(0, 100));
        assert!(later.allows(50, 51) && !later.allows(50, 50) && !earlier.allows(50, 50));
        let not_yet = When { not_yet: true, ..When::default() };
        let already = When { already: true, ..When::default() };
        assert!(
            not_yet.allows(0, 1) && !not_yet.allows(1, 2) && already.allows(1, 2) && !already.allows(0, 1)
        );
    }
}
