use std::sync::Arc;

use ladoga_access::{Denied, Scopes, bearer};
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
    /// The name of its token.
    pub(crate) fn id(&self) -> &str {
        self.token.entry.id.as_str()
    }

    /// Goes on by the tokens that count now, if its own is among them.
    pub(crate) fn still(&mut self, wall_ms: u64) -> Result<(), Unauthorized> {
        if self.guard.generation() != self.generation {
            *self = Arc::clone(&self.guard).renewed(self, wall_ms)?;
        }
        if self.token.has_expired(wall_ms) { Err(Unauthorized::Invalid) } else { Ok(()) }
    }

    /// Whether it may do all of these.
    pub(crate) fn check(&self, needed: Scopes) -> Result<(), Denied> {
        self.counted(self.token.entry.grant.check(needed))
    }

    /// Whether it may do something with this key, if it may do it at all.
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), Denied> {
        self.counted(self.token.entry.grant.check_key(key))
    }

    /// The same with all of these keys.
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
        let shown = Some(authorization).filter(|shown| shown.len() <= PRESENTED_BYTES_MAX);
        let caller = guard.let_in(shown.and_then(bearer), wall_ms)?;
        *known = Some(Login { presented: authorization.into(), caller });
        Ok(())
    }
}
