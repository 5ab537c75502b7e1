use std::sync::Arc;

use ladoga_access::{Denied, Presented, Scopes, TokenEntry, bearer, is_bearer};
use ladoga_service::KeySpan;

use super::guard::Guard;
use super::live_token::{LiveToken, Throttled};
use super::need::Unauthorized;

/// A client that has shown a token which counts.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(super) guard: Arc<Guard>,
    pub(super) token: Arc<LiveToken>,
    /// As of which tokens of the guard.
    pub(super) generation: u64,
}

impl Caller {
    /// Whoever shows this, if that counts.
    pub(crate) fn let_in(
        guard: &Arc<Guard>,
        presented: Option<Presented<'_>>,
        wall_ms: u64,
    ) -> Result<Caller, Unauthorized> {
        let presented = presented.ok_or(Unauthorized::Invalid);
        let found = presented.and_then(|presented| guard.find(presented.id, &presented.hash(), wall_ms));
        if found.is_err() {
            guard.refused();
        }
        let (token, generation) = found?;
        Ok(Caller { guard: Arc::clone(guard), token, generation })
    }

    /// The name of its token.
    pub(crate) fn id(&self) -> &str {
        self.token.entry.id.as_str()
    }

    /// As of which tokens of the node it may do what it may: another number may mean other rights.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Goes on by the tokens that count now, if its own is among them.
    pub(crate) fn still(&mut self, wall_ms: u64) -> Result<(), Unauthorized> {
        if self.guard.generation() != self.generation {
            let TokenEntry { id, hash, .. } = &self.token.entry;
            (self.token, self.generation) = self.guard.find(id.as_str(), hash, wall_ms)?;
        }
        if self.token.has_expired(wall_ms) { Err(Unauthorized::Invalid) } else { Ok(()) }
    }

    /// Whether it may do all of these.
    pub(crate) fn check(&self, needed: Scopes) -> Result<(), Denied> {
        self.counted(self.token.entry.grant.check(needed))
    }

    /// Whether it may do what one of these scopes is enough for.
    pub(crate) fn check_any(&self, enough: Scopes) -> Result<(), Denied> {
        self.counted(self.token.entry.grant.check_any(enough))
    }

    /// Whether it may do something with this key, if it may do it at all.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), Denied> {
        self.counted(self.token.entry.grant.check_key(key))
    }

    /// Whether it may be told that there is this key. That is no attempt to do anything, and not counted as one.
    pub(crate) fn may_see(&self, key: &[u8]) -> bool {
        self.token.entry.grant.check_key(key).is_ok()
    }

    /// The same as `check_key` with all of these keys.
    pub(crate) fn check_range(&self, start: &[u8], end: Option<&[u8]>) -> Result<(), Denied> {
        self.counted(self.token.entry.grant.check_range(start, end))
    }

    /// The same.
    pub(crate) fn check_span(&self, span: &KeySpan) -> Result<(), Denied> {
        self.check_range(&span.start, span.end.as_deref())
    }

    fn counted(&self, checked: Result<(), Denied>) -> Result<(), Denied> {
        if checked.is_err() {
            self.token.denied();
        }
        checked
    }

    /// Takes a request with so many bytes of values out of what it may use.
    pub(crate) fn admit(&self, now_ns: u64, bytes: u64) -> Result<(), Throttled> {
        self.token.admit(now_ns, bytes)
    }

    /// It has made so many requests more, which came as one.
    pub(crate) fn charge_requests(&self, now_ns: u64, count: u64) {
        self.token.charge_requests(now_ns, count);
    }

    /// Bytes have been moved for it.
    pub(crate) fn charge(&self, now_ns: u64, bytes: u64) {
        self.token.charge(now_ns, bytes);
    }
}

/// Who was let in on a connection, and by what: who shows the same again costs no hash.
pub(crate) struct Login {
    presented: Box<[u8]>,
    pub(crate) caller: Caller,
}

/// What is kept of it is no longer than a token with the longest name.
const PRESENTED_BYTES_MAX: usize = 256;

impl Login {
    /// Whoever shows this in `Authorization`. What it was let in by before is in `known`.
    pub(crate) fn renew(
        known: &mut Option<Login>,
        guard: &Arc<Guard>,
        authorization: &[u8],
        wall_ms: u64,
    ) -> Result<(), Unauthorized> {
        if let Some(login) = known
            && bool::from(subtle::ConstantTimeEq::ct_eq(&*login.presented, authorization))
            && login.caller.still(wall_ms).is_ok()
        {
            return Ok(());
        }
        *known = None;
        if !is_bearer(authorization) {
            guard.refused();
            return Err(Unauthorized::Scheme);
        }
        let shown = Some(authorization).filter(|shown| shown.len() <= PRESENTED_BYTES_MAX);
        let caller = Caller::let_in(guard, shown.and_then(bearer), wall_ms)?;
        *known = Some(Login { presented: authorization.into(), caller });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use ladoga_access::{Grant, SecretHash, TokenFile, TokenId, generate};

    use super::*;

    /// A file with these tokens, each with the secret of this byte, and what rest of it there is.
    fn file(tokens: &[(&str, u8, &str)]) -> TokenFile {
        let entries = tokens.iter().map(|(id, byte, rest)| {
            let (_, hash) = generate(&TokenId::parse(id).expect("a name"), [*byte; 32]);
            let hash = SecretText(hash).text();
            format!("[[token]]\nid = \"{id}\"\nsha256 = \"{hash}\"\nscopes = [\"read\"]\n{rest}\n")
        });
        TokenFile::parse(entries.collect::<String>().as_bytes()).expect("a file")
    }

    /// The hash as a file has it.
    struct SecretText(SecretHash);

    impl SecretText {
        fn text(self) -> String {
            let entry = TokenEntry {
                id: TokenId::parse("x").expect("a name"),
                hash: self.0,
                grant: Grant::new(Scopes::NONE, []),
                expires_at_ms: None,
                requests: None,
                bytes: None,
            };
            let text = TokenFile { tokens: vec![entry] }.text();
            let (_, behind) = text.split_once("sha256 = \"").expect("a hash");
            behind.split('"').next().expect("a hash").to_owned()
        }
    }

    fn shown(id: &str, byte: u8) -> String {
        generate(&TokenId::parse(id).expect("a name"), [byte; 32]).0
    }

    fn let_in(guard: &Arc<Guard>, token: &str, wall_ms: u64) -> Result<Caller, Unauthorized> {
        Caller::let_in(guard, Presented::parse(token.as_bytes()), wall_ms)
    }

    #[test]
    fn a_token_counts_until_it_expires_or_is_revoked() {
        let expires = "expires = 1970-01-01T00:00:10Z";
        let guard = Arc::new(Guard::new(file(&[("a", 1, ""), ("b", 2, expires)])));
        let (a, b) = (shown("a", 1), shown("b", 2));
        let first = let_in(&guard, &a, 0).expect("a token");
        assert!(let_in(&guard, &b, 9_999).is_ok());
        assert!(let_in(&guard, &b, 10_000).is_err());
        for wrong in [shown("a", 2), shown("b", 1), shown("c", 1), "none".to_owned()] {
            assert!(let_in(&guard, &wrong, 0).is_err(), "{wrong}");
        }
        let mut caller = first.clone();
        guard.replace(file(&[("a", 1, "")]));
        assert!(caller.still(0).is_ok(), "its token is there");
        assert!(let_in(&guard, &b, 0).is_err(), "revoked");
        guard.replace(file(&[("a", 3, "")]));
        assert!(caller.still(0).is_err() && first.clone().still(0).is_err(), "another secret");
        assert!(let_in(&guard, &a, 0).is_err());
        assert!(let_in(&guard, &shown("a", 3), 0).is_ok());
        assert_eq!(guard.counts(), (2, 0, 7));
    }

    #[test]
    fn a_file_that_cannot_be_used_changes_nothing() {
        let guard = Arc::new(Guard::new(file(&[("a", 1, "")])));
        guard.keep("line 1: no".to_owned());
        assert!(let_in(&guard, &shown("a", 1), 0).is_ok());
        assert_eq!((guard.problem().as_deref(), guard.counts().1), (Some("line 1: no"), 1));
        guard.replace(TokenFile::default());
        assert_eq!(guard.problem(), None);
    }
}
