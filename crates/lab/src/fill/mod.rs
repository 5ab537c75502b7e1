//! Filling a store: every key of a workload is written once before it is read. Batches of requests share a write to
//! the socket, and nothing counts as filled that was not acknowledged.
//!
//! - `writer`: what one connection writes, and the one that follows it if the server ends it
//! - `progress`: how far it is, on standard error

mod progress;
mod writer;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use self::progress::FillProgress;
use self::writer::{Fill, Writer};
use crate::cli::Target;
use crate::error::Outcome;
use crate::load::address_of;
use crate::workload::Renderer;

const CONNECTIONS: u64 = 4;
/// Requests that are on their way at once on a connection.
const BATCH: u64 = 64;
/// A batch of large values is smaller.
const BATCH_BYTES_MAX: u64 = 1 << 20;
const PROGRESS_EVERY: Duration = Duration::from_millis(250);

/// What a store is filled with: `key0` and so on, as many as there are to be.
pub(crate) struct Content<'a> {
    pub(crate) target: &'a Target,
    /// Those of the run: they may be what lets it in.
    pub(crate) headers: &'a [(String, String)],
    pub(crate) keys: u64,
    /// None for `value0`, `value1`, …
    pub(crate) value_bytes: Option<usize>,
}

impl Content<'_> {
    pub(crate) fn in_words(&self) -> String {
        let values = match self.value_bytes {
            Some(bytes) => format!("with values of {bytes} B"),
            None => "with short values (value0 and so on)".to_owned(),
        };
        format!("{} {values}", keys_in_words(self.keys))
    }

    /// Writes every key once. An interruption ends it early: false.
    pub(crate) fn fill(&self, stop: &AtomicBool) -> Outcome<bool> {
        let Self { target, keys, value_bytes, .. } = *self;
        let address = address_of(target)?;
        let batch = (BATCH_BYTES_MAX / value_bytes.unwrap_or(0).max(1) as u64).clamp(1, BATCH);
        let fields = target.fields(self.headers);
        let has_shown_token = fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        let renderer = Renderer::new(&target.host_header(), &fields, value_bytes);
        let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let tls = target.tls()?;
        let shared = Fill { address, tls, renderer, has_shown_token, keys, batch, next, done, stop };
        std::thread::scope(|scope| {
            let (ended_in, ended) = channel();
            for _ in 0..CONNECTIONS.min(keys.div_ceil(batch)) {
                let (shared, ended) = (&shared, ended_in.clone());
                scope.spawn(move || Writer::new(shared).write_until_done(&ended));
            }
            drop(ended_in);
            follow(&shared, &ended)
        })
    }
}

/// Which keys a store is filled with.
pub(crate) fn keys_in_words(keys: u64) -> String {
    if keys == 1 { "key0".to_owned() } else { format!("{keys} keys (key0 to key{})", keys.saturating_sub(1)) }
}

/// Shows how far it is until every connection has ended; whether every key was acknowledged.
fn follow(fill: &Fill<'_>, ended: &Receiver<Outcome<()>>) -> Outcome<bool> {
    let mut progress = FillProgress::new(fill.keys);
    loop {
        match ended.recv_timeout(PROGRESS_EVERY) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                fill.next.store(fill.keys, Ordering::Relaxed); // The others need not go on.
                progress.clear();
                return Err(error);
            }
            Err(RecvTimeoutError::Timeout) => progress.show(fill.done.load(Ordering::Relaxed)),
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let done = fill.done.load(Ordering::Relaxed);
    progress.end(done);
    Ok(done == fill.keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_said_in_words() {
        let target = Target::parse("http://a").unwrap();
        let words =
            |keys, value_bytes| Content { target: &target, headers: &[], keys, value_bytes }.in_words();
        assert_eq!(
            words(1_000_000, None),
            "1000000 keys (key0 to key999999) with short values (value0 and so on)"
        );
        assert_eq!(words(1, Some(100)), "key0 with values of 100 B");
    }
}
