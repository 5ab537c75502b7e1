use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use ladoga_access::{Presented, SecretHash, TokenEntry, TokenFile};
use parking_lot::Mutex;

use super::caller::Caller;
use super::live_token::LiveToken;
use super::need::Unauthorized;

/// The tokens of a node. They are replaced as a whole while it runs; who has one that still counts notices nothing.
pub struct Guard {
    tokens: ArcSwap<Tokens>,
    /// How often they were replaced.
    generation: AtomicU64,
    /// Why the file that is there is not the one that counts, if it is not.
    problem: Mutex<Option<String>>,
    reloads_failed: AtomicU64,
    /// Requests of those who had no token, or none that counts.
    unauthorized: AtomicU64,
}

/// By name.
pub(super) type Tokens = BTreeMap<Box<str>, Arc<LiveToken>>;

impl Guard {
    /// These tokens.
    pub fn new(file: TokenFile) -> Guard {
        Guard {
            tokens: ArcSwap::from_pointee(live(file, &Tokens::new())),
            generation: AtomicU64::new(0),
            problem: Mutex::new(None),
            reloads_failed: AtomicU64::new(0),
            unauthorized: AtomicU64::new(0),
        }
    }

    /// From now on these, for all event loops. What a token of the same name has used counts on.
    pub fn replace(&self, file: TokenFile) {
        let tokens = live(file, &self.tokens.load());
        self.tokens.store(Arc::new(tokens));
        // Behind the tokens: who sees the number finds these, or newer ones.
        self.generation.fetch_add(1, Ordering::Release);
        *self.problem.lock() = None;
    }

    /// There is a newer file, which cannot be used for this reason. What there was counts on.
    pub fn keep(&self, problem: String) {
        self.reloads_failed.fetch_add(1, Ordering::Relaxed);
        *self.problem.lock() = Some(problem);
    }

    /// Why the file that is there is not the one that counts.
    pub(crate) fn problem(&self) -> Option<String> {
        self.problem.lock().clone()
    }

    /// Whoever shows this, if that counts.
    pub(crate) fn let_in(
        self: &Arc<Self>,
        presented: Option<Presented<'_>>,
        wall_ms: u64,
    ) -> Result<Caller, Unauthorized> {
        let presented = presented.ok_or(Unauthorized::Invalid);
        let found = presented.and_then(|presented| self.find(presented.id, &presented.hash(), wall_ms));
        if found.is_err() {
            self.refused();
        }
        found
    }

    fn find(self: &Arc<Self>, id: &str, hash: &SecretHash, wall_ms: u64) -> Result<Caller, Unauthorized> {
        // Before the tokens: they are those of this number, or newer ones.
        let generation = self.generation();
        let tokens = self.tokens.load();
        let token = tokens.get(id).filter(|token| token.entry.hash.is(hash) && !token.has_expired(wall_ms));
        let token = Arc::clone(token.ok_or(Unauthorized::Invalid)?);
        Ok(Caller { guard: Arc::clone(self), token, generation })
    }

    /// The same client, if its token still counts.
    pub(super) fn renewed(self: &Arc<Self>, caller: &Caller, wall_ms: u64) -> Result<Caller, Unauthorized> {
        let TokenEntry { id, hash, .. } = &caller.token.entry;
        self.find(id.as_str(), hash, wall_ms)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Somebody was not let in.
    pub(crate) fn refused(&self) {
        self.unauthorized.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tokens(&self) -> Arc<Tokens> {
        self.tokens.load_full()
    }

    pub(super) fn counts(&self) -> (u64, u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.generation), of(&self.reloads_failed), of(&self.unauthorized))
    }
}

fn live(file: TokenFile, known: &Tokens) -> Tokens {
    let live = |entry: TokenEntry| {
        let id: Box<str> = entry.id.as_str().into();
        let token = known
            .get(&id)
            .map_or_else(|| LiveToken::new(entry.clone()), |token| token.renewed(entry.clone()));
        (id, Arc::new(token))
    };
    file.tokens.into_iter().map(live).collect()
}

#[cfg(test)]
mod tests {
    use ladoga_access::{TokenId, generate};

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
                grant: ladoga_access::Grant::new(ladoga_access::Scopes::NONE, []),
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
        guard.let_in(Presented::parse(token.as_bytes()), wall_ms)
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
        guard.replace(file(&[]));
        assert_eq!(guard.problem(), None);
    }
}
