use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ladoga_access::{Rate, TokenEntry};

/// A token that counts, and what it has used. All event loops share it.
pub(crate) struct LiveToken {
    pub(crate) entry: TokenEntry,
    usage: Arc<Usage>,
}

/// What a token has used. It outlives the file that the token was read from.
#[derive(Default)]
struct Usage {
    /// When its buckets are full again.
    requests_full_ns: AtomicU64,
    bytes_full_ns: AtomicU64,
    requests: AtomicU64,
    bytes: AtomicU64,
    denied: AtomicU64,
    throttled: AtomicU64,
}

/// A token has used more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the token has used its {what} a second; expected a request after {} s", self.wait_s())]
pub(crate) struct Throttled {
    what: &'static str,
    wait_ns: u64,
}

impl Throttled {
    /// After how many seconds another request is worth its while.
    pub(crate) fn wait_s(self) -> u64 {
        self.wait_ns.div_ceil(1_000_000_000).max(1)
    }
}

/// What tokens have used, as it is shown.
pub(super) struct Used {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) denied: u64,
    pub(super) throttled: u64,
}

impl LiveToken {
    pub(super) fn new(entry: TokenEntry) -> LiveToken {
        LiveToken { entry, usage: Arc::default() }
    }

    /// The same token out of a newer file.
    pub(super) fn renewed(&self, entry: TokenEntry) -> LiveToken {
        LiveToken { entry, usage: Arc::clone(&self.usage) }
    }

    pub(super) fn has_expired(&self, wall_ms: u64) -> bool {
        self.entry.expires_at_ms.is_some_and(|expires_at_ms| wall_ms >= expires_at_ms)
    }

    /// Takes requests with so many bytes of values out of what it may use, unless that is used up.
    pub(super) fn admit(&self, now_ns: u64, bytes: u64) -> Result<(), Throttled> {
        let usage = &*self.usage;
        usage.requests.fetch_add(1, Ordering::Relaxed);
        let admitted = take(self.entry.requests, &usage.requests_full_ns, now_ns, 1)
            .map_err(|wait_ns| Throttled { what: "requests", wait_ns })
            .and_then(|()| {
                take(self.entry.bytes, &usage.bytes_full_ns, now_ns, bytes)
                    .map_err(|wait_ns| Throttled { what: "bytes", wait_ns })
            });
        match admitted {
            Ok(()) => usage.bytes.fetch_add(bytes, Ordering::Relaxed),
            Err(_) => usage.throttled.fetch_add(1, Ordering::Relaxed),
        };
        admitted
    }

    /// Bytes have been moved for it, which nobody knew of before.
    pub(super) fn charge(&self, now_ns: u64, bytes: u64) {
        self.usage.bytes.fetch_add(bytes, Ordering::Relaxed);
        charge(self.entry.bytes, &self.usage.bytes_full_ns, now_ns, bytes);
    }

    /// The same of requests.
    pub(super) fn charge_requests(&self, now_ns: u64, count: u64) {
        self.usage.requests.fetch_add(count, Ordering::Relaxed);
        charge(self.entry.requests, &self.usage.requests_full_ns, now_ns, count);
    }

    pub(super) fn denied(&self) {
        self.usage.denied.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> Used {
        let Usage { requests, bytes, denied, throttled, .. } = &*self.usage;
        let [requests, bytes, denied, throttled] =
            [requests, bytes, denied, throttled].map(|count| count.load(Ordering::Relaxed));
        Used { requests, bytes, denied, throttled }
    }
}

/// Takes from a bucket what nobody can refuse any more.
fn charge(rate: Option<Rate>, full_ns: &AtomicU64, now_ns: u64, cost: u64) {
    let Some(rate) = rate else { return };
    // It fails only if that answers nothing.
    let _ = full_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_ns| {
        Some(rate.charge(full_ns, now_ns, cost))
    });
}

/// Takes from a bucket that many threads share; the error is how long to wait.
fn take(rate: Option<Rate>, full_ns: &AtomicU64, now_ns: u64, cost: u64) -> Result<(), u64> {
    let Some(rate) = rate else { return Ok(()) };
    let mut known_ns = full_ns.load(Ordering::Relaxed);
    loop {
        let next_ns = rate.take(known_ns, now_ns, cost)?;
        match full_ns.compare_exchange_weak(known_ns, next_ns, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Ok(()),
            Err(newer_ns) => known_ns = newer_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use ladoga_access::TokenFile;

    use super::*;

    fn token(rest: &str) -> LiveToken {
        let text =
            format!("[[token]]\nid = \"t\"\nsha256 = \"{}\"\nscopes = [\"read\"]\n{rest}\n", "0".repeat(64));
        let file = TokenFile::parse(text.as_bytes()).expect("a file");
        LiveToken::new(file.tokens.into_iter().next().expect("a token"))
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_is_used_up_comes_back_with_time() {
        let token = token("requests_per_second = 2\nbytes_per_second = 100");
        assert_eq!(token.admit(SECOND, 0), Ok(()));
        assert_eq!(token.admit(SECOND, 0), Ok(()));
        let throttled = token.admit(SECOND, 0).expect_err("that was all");
        assert_eq!((throttled.what, throttled.wait_s()), ("requests", 1));
        token.charge(2 * SECOND, 400);
        let throttled = token.admit(2 * SECOND, 0).expect_err("in debt");
        assert_eq!((throttled.what, throttled.wait_s()), ("bytes", 3));
        assert_eq!(token.admit(5 * SECOND, 0), Ok(()));
        let Used { requests, bytes, throttled, .. } = token.used();
        assert_eq!((requests, bytes, throttled), (5, 400, 2));
        let again = token.renewed(token.entry.clone());
        assert_eq!(again.used().requests, 5, "a newer file changes nothing about what was used");
    }

    #[test]
    fn many_threads_share_one_bucket() {
        let token = token("requests_per_second = 1000");
        let admitted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if token.admit(SECOND, 0).is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 1_000);
    }
}
