//! Options and numbers behind the names of commands, read in the order in which Redis reads them: so the same mistake gets the same
//! words.

use ladoga_model::{TTL_MS_MAX, Ttl};
use ladoga_resp::{Request, parse_integer};

use super::failed::Failed;
use super::found::NewLifetime;

/// An argument that is a number.
pub(super) fn integer(text: &[u8]) -> Result<i64, Failed> {
    parse_integer(text).ok_or_else(Failed::no_integer)
}

/// Whether an argument is this word, in whatever letters.
pub(super) fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// How an expiry is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) is_seconds: bool,
    /// Whether it is a moment, and not a time from now on.
    pub(super) is_moment: bool,
}

impl Unit {
    pub(super) const SECONDS: Unit = Unit { is_seconds: true, is_moment: false };
    pub(super) const MILLISECONDS: Unit = Unit { is_seconds: false, is_moment: false };
    pub(super) const MOMENT_SECONDS: Unit = Unit { is_seconds: true, is_moment: true };
    pub(super) const MOMENT_MILLISECONDS: Unit = Unit { is_seconds: false, is_moment: true };

    fn of(option: &[u8]) -> Option<Unit> {
        let units = [
            ("EX", Unit::SECONDS),
            ("PX", Unit::MILLISECONDS),
            ("EXAT", Unit::MOMENT_SECONDS),
            ("PXAT", Unit::MOMENT_MILLISECONDS),
        ];
        units.into_iter().find(|(word, _)| is(option, word)).map(|(_, unit)| unit)
    }

    /// The time to live that a positive number of this unit is, for a command that creates values.
    pub(super) fn ttl(self, number: &[u8], command: &str) -> Result<Ttl, Failed> {
        let invalid = || Failed::expire_time(command);
        let number = u64::try_from(integer(number)?).ok().filter(|number| *number > 0).ok_or_else(invalid)?;
        let ms = if self.is_seconds { number.checked_mul(1_000).ok_or_else(invalid)? } else { number };
        let ttl = if self.is_moment { Ttl::until_ms(ms) } else { Ttl::of_ms(ms) };
        ttl.ok_or_else(invalid)
    }

    /// The moment that a number of this unit is, in milliseconds since 1970; it may be past.
    pub(super) fn moment_ms(self, number: i64, now_ms: u64, command: &str) -> Result<i64, Failed> {
        let invalid = || Failed::expire_time(command);
        let ms = if self.is_seconds { number.checked_mul(1_000).ok_or_else(invalid)? } else { number };
        if !self.is_moment && ms > TTL_MS_MAX as i64 {
            return Err(invalid());
        }
        let base_ms = if self.is_moment { 0 } else { now_ms as i64 };
        ms.checked_add(base_ms).ok_or_else(invalid)
    }
}

/// What a value has to be for a write to happen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Condition {
    #[default]
    None,
    /// It is not there.
    Absent,
    /// It is there.
    Present,
    /// It is equal to this argument, or not equal.
    Equal { argument: usize, is_equal: bool },
    /// The same of its digest.
    Digest { argument: usize, is_equal: bool },
}

impl Condition {
    /// Whether it is true of a value.
    pub(super) fn is_true_of(&self, value: Option<&[u8]>, request: &Request) -> bool {
        match (self, value) {
            (Condition::None, _) | (Condition::Absent, None) | (Condition::Present, Some(_)) => true,
            (Condition::Absent, Some(_)) | (Condition::Present, None) => false,
            (Condition::Equal { is_equal, .. } | Condition::Digest { is_equal, .. }, None) => !is_equal,
            (Condition::Equal { argument, is_equal }, Some(value)) => {
                (value == &request[*argument]) == *is_equal
            }
            (Condition::Digest { argument, is_equal }, Some(value)) => {
                digest(value).as_bytes().eq_ignore_ascii_case(&request[*argument]) == *is_equal
            }
        }
    }

    /// Whether it depends on what a value is, and not only on whether there is one.
    pub(super) const fn needs_value(&self) -> bool {
        matches!(self, Condition::Equal { .. } | Condition::Digest { .. })
    }

    fn of(option: &[u8], argument: usize) -> Option<Condition> {
        let conditions = [
            ("IFEQ", Condition::Equal { argument, is_equal: true }),
            ("IFNE", Condition::Equal { argument, is_equal: false }),
            ("IFDEQ", Condition::Digest { argument, is_equal: true }),
            ("IFDNE", Condition::Digest { argument, is_equal: false }),
        ];
        conditions.into_iter().find(|(word, _)| is(option, word)).map(|(_, condition)| condition)
    }
}

/// What `DIGEST` says of a value.
pub(super) fn digest(value: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(value))
}

/// The options of `SET`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SetOptions {
    pub(super) condition: Condition,
    /// Whether the value before is answered.
    pub(super) gets: bool,
    pub(super) life: NewLifetime,
}

impl SetOptions {
    /// From this argument on.
    pub(super) fn parse(request: &Request, from: usize) -> Result<SetOptions, Failed> {
        let (mut condition, mut gets, mut keeps, mut at) = (Condition::None, false, false, from);
        let mut expiry: Option<(Unit, usize)> = None;
        while let Some(option) = request.get(at) {
            let has_next = at + 1 < request.len();
            if is(option, "NX") && matches!(condition, Condition::None | Condition::Absent) {
                condition = Condition::Absent;
            } else if is(option, "XX") && matches!(condition, Condition::None | Condition::Present) {
                condition = Condition::Present;
            } else if is(option, "GET") {
                gets = true;
            } else if is(option, "KEEPTTL") && expiry.is_none() {
                keeps = true;
            } else if let Some(unit) = Unit::of(option)
                && has_next
                && !keeps
                && expiry.is_none_or(|(known, _)| known == unit)
            {
                at += 1;
                expiry = Some((unit, at));
            } else if let Some(compared) = Condition::of(option, at + 1)
                && has_next
                && condition == Condition::None
            {
                at += 1;
                condition = compared;
            } else {
                return Err(Failed::syntax());
            }
            at += 1;
        }
        let life = match expiry {
            None if keeps => NewLifetime::Kept,
            None => NewLifetime::Forever,
            Some((unit, number)) => NewLifetime::For(unit.ttl(&request[number], "set")?),
        };
        Ok(SetOptions { condition, gets, life })
    }
}

/// What `GETEX` does to an expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GetExOption {
    Nothing,
    Persist,
    /// It ends as this argument says, which is looked at if there is a value.
    Until(Unit, usize),
}

impl GetExOption {
    pub(super) fn parse(request: &Request) -> Result<GetExOption, Failed> {
        let (mut persists, mut expiry, mut at) = (false, None, 2);
        while let Some(option) = request.get(at) {
            if is(option, "PERSIST") && expiry.is_none() {
                persists = true;
            } else if let Some(unit) = Unit::of(option)
                && at + 1 < request.len()
                && !persists
                && expiry.is_none_or(|(known, _)| known == unit)
            {
                at += 1;
                expiry = Some((unit, at));
            } else {
                return Err(Failed::syntax());
            }
            at += 1;
        }
        Ok(match expiry {
            Some((unit, number)) => GetExOption::Until(unit, number),
            None if persists => GetExOption::Persist,
            None => GetExOption::Nothing,
        })
    }
}

/// The condition of `DELEX`.
pub(super) fn condition_of_delete(request: &Request) -> Result<Condition, Failed> {
    match request.len() {
        2 => Ok(Condition::None),
        4 => Condition::of(&request[2], 3).ok_or_else(Failed::syntax),
        _ => Err(Failed::syntax()),
    }
}
