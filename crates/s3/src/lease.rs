use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ladoga_env::{Clock, Lock};
use parking_lot::{Mutex, MutexGuard};

use crate::client::{Client, Condition, Piece};

/// A lock that was not renewed for so long is nobody's any more.
const LEASE: Duration = Duration::from_mins(3);
/// How often it is renewed. Before anything is changed, it is not older than that by either clock.
pub(crate) const RENEW_EVERY: Duration = Duration::from_secs(30);

/// The right to change what is in the bucket, as an object that only its holder writes.
pub(crate) struct Lease {
    client: Arc<Client>,
    clock: Arc<dyn Clock>,
    key: String,
    /// Tells it from that of any other process.
    nonce: String,
    state: Mutex<State>,
}

struct State {
    /// Of the object as this process wrote it last; none once it is somebody else's.
    tag: Option<String>,
    renewed: Moment,
}

/// By both clocks: the one that never jumps stands still while the machine is suspended, and others count on.
#[derive(Clone, Copy)]
struct Moment {
    monotonic_ns: u64,
    wall_ms: u64,
}

impl Moment {
    fn now(clock: &dyn Clock) -> Moment {
        Moment { monotonic_ns: clock.monotonic_ns(), wall_ms: clock.wall_ms() }
    }

    /// Whether less time has passed since then. If the wall clock was set back, nobody knows.
    fn is_within(self, age_max: Duration, clock: &dyn Clock) -> bool {
        let now = Moment::now(clock);
        let passed = Duration::from_nanos(now.monotonic_ns.saturating_sub(self.monotonic_ns));
        let wall = now.wall_ms.checked_sub(self.wall_ms).map(Duration::from_millis);
        passed < age_max && wall.is_some_and(|wall| wall < age_max)
    }
}

/// A lease that is held: it is renewed until this is dropped.
pub(crate) struct Held {
    lease: Arc<Lease>,
    ends: Option<Sender<()>>,
    renewing: Option<thread::JoinHandle<()>>,
}

impl Lock for Held {}

impl Lease {
    /// Takes it; `WouldBlock` if another process has it.
    pub(crate) fn take(
        client: &Arc<Client>,
        clock: &Arc<dyn Clock>,
        key: String,
        nonce: String,
    ) -> io::Result<(Arc<Lease>, Held)> {
        let renewed = Moment::now(&**clock);
        let tag = match write(client, &key, &nonce, Condition::Absent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => take_over(client, &key, &nonce)?,
            written => written?,
        };
        let state = Mutex::new(State { tag: Some(tag), renewed });
        let (client, clock) = (Arc::clone(client), Arc::clone(clock));
        let lease = Arc::new(Lease { client, clock, key, nonce, state });
        let held = Held::begin(&lease);
        // A server that writes over what is there, whatever it is asked, cannot keep two processes apart.
        match write(&lease.client, &lease.key, &lease.nonce, Condition::Absent) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok((lease, held)),
            Err(error) => Err(error),
            Ok(tag) => {
                lease.state.lock().tag = Some(tag);
                let text = "the server ignores If-None-Match, so that it cannot keep two backups apart";
                Err(io::Error::new(ErrorKind::Unsupported, text))
            }
        }
    }

    /// Sees to it that it was held less than `age_max` ago, by the clocks that there are; an error if it was not, or nobody knows. Those
    /// clocks may have stood still: with an age of zero, the server is asked in any case.
    pub(crate) fn check(&self, age_max: Duration) -> io::Result<()> {
        let state = self.state.lock();
        if state.tag.is_some() && state.renewed.is_within(age_max, &*self.clock) {
            return Ok(());
        }
        self.renew(state)
    }

    fn renew(&self, mut state: MutexGuard<'_, State>) -> io::Result<()> {
        let Some(tag) = &state.tag else { return Err(taken_by_another()) };
        let renewed = Moment::now(&*self.clock);
        match write(&self.client, &self.key, &self.nonce, Condition::Is(tag)) {
            Ok(tag) => *state = State { tag: Some(tag), renewed },
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // An attempt before this one may have been ours.
                let held = self.client.get(&self.key, 0, self.nonce.len() as u64)?;
                let is_ours = held.bytes == self.nonce.as_bytes();
                *state = State { tag: is_ours.then_some(held.tag), renewed };
                if !is_ours {
                    return Err(taken_by_another());
                }
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

fn taken_by_another() -> io::Error {
    io::Error::other("another process has taken the lock, because this one stood still for long")
}

fn write(client: &Client, key: &str, nonce: &str, condition: Condition<'_>) -> io::Result<String> {
    let content = nonce.as_bytes();
    client.put(key, (&content, crc32c::crc32c(content)), condition)
}

/// Takes the lock of a process that is gone.
fn take_over(client: &Client, key: &str, nonce: &str) -> io::Result<String> {
    let held = match client.get(key, 0, nonce.len() as u64) {
        // It has just been given back, and others may be as quick.
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(ErrorKind::WouldBlock.into()),
        held => held?,
    };
    if held.bytes == nonce.as_bytes() {
        // An attempt that seemed to fail had worked.
        return Ok(held.tag);
    }
    if held.age.is_none_or(|age| age < LEASE) {
        return Err(ErrorKind::WouldBlock.into());
    }
    match write(client, key, nonce, Condition::Is(&held.tag)) {
        // Somebody was faster, or the answer to an attempt of ours was lost and the next one met what that had written.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            match client.get(key, 0, nonce.len() as u64) {
                Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                held => {
                    let own = |held: Piece| (held.bytes == nonce.as_bytes()).then_some(held.tag);
                    held.ok().and_then(own).ok_or_else(|| ErrorKind::WouldBlock.into())
                }
            }
        }
        taken => taken,
    }
}

impl Held {
    fn begin(lease: &Arc<Lease>) -> Held {
        let (ends, is_over) = channel();
        let renewed = Arc::clone(lease);
        let renewing = thread::spawn(move || {
            while is_over.recv_timeout(RENEW_EVERY) == Err(RecvTimeoutError::Timeout) {
                // What goes wrong shows before the next change.
                let _ = renewed.check(RENEW_EVERY);
            }
        });
        Held { lease: Arc::clone(lease), ends: Some(ends), renewing: Some(renewing) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.ends.take());
        if let Some(renewing) = self.renewing.take() {
            let _ = renewing.join();
        }
        // Another process may have taken it, if this one stood still. What is not removed is nobody's in three minutes.
        if self.lease.check(Duration::ZERO).is_ok() {
            let _ = self.lease.client.delete(&self.lease.key);
        }
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
