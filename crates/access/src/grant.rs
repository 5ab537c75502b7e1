use crate::scope::{Scope, Scopes};

/// Why something is not allowed. It tells what is missing, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The token may not do that with any key.
    #[error("the token lacks the scope {0}")]
    Scope(Scope),
    /// It may, with other keys.
    #[error("the key begins with no prefix of the token")]
    Key,
    /// It may, with other ranges.
    #[error("the range is not inside a prefix of the token")]
    Range,
    /// It is about all keys, and the token is not.
    #[error("it is about all keys, and the token has prefixes")]
    AllKeys,
}

/// What a token allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    scopes: Scopes,
    /// What keys begin with; any key if there is none.
    prefixes: Box<[Box<[u8]>]>,
}

impl Grant {
    /// These scopes, for keys with one of these prefixes, or for all keys.
    pub fn new(scopes: Scopes, prefixes: impl IntoIterator<Item = Box<[u8]>>) -> Grant {
        Grant { scopes, prefixes: prefixes.into_iter().collect() }
    }

    /// What it may do.
    pub const fn scopes(&self) -> Scopes {
        self.scopes
    }

    /// What keys begin with; any key if there is none.
    pub fn prefixes(&self) -> &[Box<[u8]>] {
        &self.prefixes
    }

    /// Whether all of these may be done.
    pub fn check(&self, needed: Scopes) -> Result<(), Denied> {
        self.scopes.first_missing(needed).map_or(Ok(()), |scope| Err(Denied::Scope(scope)))
    }

    /// Whether one of these may be done.
    pub fn check_any(&self, enough: Scopes) -> Result<(), Denied> {
        let has_one = enough.iter().any(|scope| self.scopes.contains(scope));
        if has_one { Ok(()) } else { self.check(enough) }
    }

    /// Whether it is about this key.
    pub fn check_key(&self, key: &[u8]) -> Result<(), Denied> {
        let is_ours = self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| key.starts_with(prefix));
        if is_ours { Ok(()) } else { Err(Denied::Key) }
    }

    /// Whether it is about all keys from `start` up to, but not including, `end`; to the last one if there is no end.
    pub fn check_range(&self, start: &[u8], end: Option<&[u8]>) -> Result<(), Denied> {
        let is_inside = |prefix: &[u8]| {
            start.starts_with(prefix)
                && match (end, behind_all_of(prefix)) {
                    (_, None) => true,
                    (None, Some(_)) => false,
                    (Some(end), Some(behind)) => end <= &behind[..],
                }
        };
        let is_ours = self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| is_inside(prefix));
        match (is_ours, start, end) {
            (true, ..) => Ok(()),
            (false, b"", None) => Err(Denied::AllKeys),
            (false, ..) => Err(Denied::Range),
        }
    }
}

/// The first key behind all that begin with `prefix`, if there can be one.
fn behind_all_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(prefixes: &[&[u8]]) -> Grant {
        Grant::new(Scopes::of(&[Scope::Read]), prefixes.iter().map(|prefix| Box::from(*prefix)))
    }

    #[test]
    fn a_scope_is_there_or_named() {
        let grant = grant(&[]);
        assert_eq!(grant.check(Scopes::of(&[Scope::Read])), Ok(()));
        assert_eq!(grant.check(Scopes::NONE), Ok(()));
        let both = Scopes::of(&[Scope::Read, Scope::Write]);
        assert_eq!(grant.check(both), Err(Denied::Scope(Scope::Write)));
        assert_eq!(grant.check_any(both), Ok(()));
        let others = Scopes::of(&[Scope::Metrics, Scope::Admin]);
        assert_eq!(grant.check_any(others), Err(Denied::Scope(Scope::Metrics)));
        assert_eq!(Denied::Scope(Scope::Write).to_string(), "the token lacks the scope write");
    }

    #[test]
    fn keys_begin_with_a_prefix() {
        let some = grant(&[b"user:", b"a\xff"]);
        for key in [&b"user:"[..], b"user:1", b"a\xff\0"] {
            assert_eq!(some.check_key(key), Ok(()), "{key:?}");
        }
        for key in [&b"user"[..], b"", b"USER:1", b"a", b"xuser:"] {
            assert_eq!(some.check_key(key), Err(Denied::Key), "{key:?}");
        }
        assert_eq!(grant(&[]).check_key(b"anything"), Ok(()));
    }

    #[test]
    fn a_range_has_no_key_outside_of_a_prefix() {
        let some = grant(&[b"b", b"user:"]);
        let check = |start: &[u8], end: Option<&[u8]>| some.check_range(start, end).is_ok();
        assert!(check(b"b", Some(b"c")));
        assert!(check(b"b5", Some(b"b6")));
        assert!(check(b"user:", Some(b"user;")));
        assert!(check(b"user:5", Some(b"a")), "there is nothing in it");
        for (start, end) in [
            (&b"b"[..], None),
            (b"b", Some(&b"c\0"[..])),
            (b"a", Some(b"b")),
            (b"", Some(b"c")),
            (b"b", Some(b"user;")),
            (b"user", Some(b"user;")),
        ] {
            assert!(!check(start, end), "{start:?} to {end:?}");
        }
        let last = grant(&[b"\xff"]);
        assert_eq!(last.check_range(b"\xff\x01", None), Ok(()), "nothing is behind it");
        assert_eq!(last.check_range(b"\xfe", None), Err(Denied::Range));
        assert_eq!(last.check_range(b"", None), Err(Denied::AllKeys));
        assert_eq!(grant(&[]).check_range(b"", None), Ok(()));
    }
}
