//! Taking a profile: one of a kind at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::collector::{Collector, Source};
use crate::options::{Kind, Options};
use crate::profile::Profile;
use crate::recorder::Recorder;
use crate::sys::calls;
use crate::{ProfileError, cpu, memory, symbols, wait};

/// Starts profiles of the process that it runs in.
#[derive(Debug, Clone, Copy)]
pub struct Profiler;

static BUSY: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// The right to take a profile of one kind; given back when dropped.
#[derive(Debug)]
struct Claim(Kind);

impl Claim {
    fn take(kind: Kind) -> Result<Self, ProfileError> {
        let taken = BUSY[kind as usize].swap(true, Ordering::AcqRel);
        if taken { Err(ProfileError::Busy { kind }) } else { Ok(Claim(kind)) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        BUSY[self.0 as usize].store(false, Ordering::Release);
    }
}

/// A profile that is being taken. Dropped, it ends and leaves nothing.
pub struct Session {
    // Before the claim: the collector must have ended when the next one may start.
    collector: Collector,
    claim: Claim,
    started_unix_ns: u64,
    started_ns: u64,
    options: Options,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Session").field("kind", &self.claim.0).finish_non_exhaustive()
    }
}

impl Profiler {
    /// Begins a profile of all threads.
    ///
    /// Errors: `Busy` while another of the kind runs, `BadOption`, `Unavailable` where this process cannot be profiled
    /// that way, `System`.
    pub fn start(kind: Kind, options: Options) -> Result<Session, ProfileError> {
        options.check()?;
        let claim = Claim::take(kind)?;
        let source: Box<dyn Source> = match kind {
            Kind::Cpu => cpu::source(&options)?,
            Kind::Alloc => memory::source(&options)?,
            Kind::Lock => wait::source(&options)?,
        };
        let started_unix_ns = calls::unix_ns();
        let started_ns = calls::monotonic_ns();
        let collector = Collector::start(source)?;
        Ok(Session { collector, claim, started_unix_ns, started_ns, options })
    }

    /// Takes a profile for `duration`, blocking the calling thread: for a thread of its own, never an event loop.
    /// `cancelled` is asked ten times a second; what was taken until then is still a profile.
    pub fn record(
        kind: Kind,
        options: Options,
        duration: Duration,
        cancelled: impl Fn() -> bool,
    ) -> Result<Profile, ProfileError> {
        let session = Profiler::start(kind, options)?;
        let end_ns = session.started_ns + duration.as_nanos() as u64;
        while !cancelled() {
            let left_ns = end_ns.saturating_sub(calls::monotonic_ns());
            if left_ns == 0 {
                break;
            }
            std::thread::sleep(Duration::from_nanos(left_ns.min(100_000_000)));
        }
        session.finish()
    }
}

impl Session {
    /// Which kind it takes.
    pub fn kind(&self) -> Kind {
        self.claim.0
    }

    /// Ends the sampling and looks up the symbols, which takes from milliseconds to a second: no call for an event loop.
    pub fn finish(self) -> Result<Profile, ProfileError> {
        let duration_ns = calls::monotonic_ns() - self.started_ns;
        let kind = self.claim.0;
        let recorder: Recorder = self.collector.finish()?;
        let period = match kind {
            Kind::Cpu => self.options.period_ns(),
            Kind::Alloc => self.options.alloc_interval_bytes,
            Kind::Lock => 1,
        };
        let mut profile = Profile {
            kind,
            started_unix_ns: self.started_unix_ns,
            duration_ns,
            period,
            threads: Vec::new(),
            stacks: crate::StackTable::default(),
            samples: Vec::new(),
            dropped: recorder.dropped,
            notes: recorder.notes.clone(),
        };
        symbols::resolve(&recorder, self.started_ns, &mut profile);
        if kind == Kind::Lock {
            wait::classify(&mut profile, self.options.include_idle);
        }
        Ok(profile)
    }
}
