use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use ladoga_access::{SecretHash, TokenEntry, TokenFile};
use parking_lot::Mutex;

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

    /// The token of this name and secret, if it counts, and as of which tokens that is.
    pub(super) fn find(
        &self,
        id: &str,
        hash: &SecretHash,
        wall_ms: u64,
    ) -> Result<(Arc<LiveToken>, u64), Unauthorized> {
        // Before the tokens: they are those of this number, or newer ones.
        let generation = self.generation();
        let tokens = self.tokens.load();
        let token = tokens.get(id).filter(|token| token.entry.hash.is(hash) && !token.has_expired(wall_ms));
        Ok((Arc::clone(token.ok_or(Unauthorized::Invalid)?), generation))
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
