//! Taking a profile: one of a kind at a time.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::collector::Collector;
use crate::kind::Kind;
use crate::options::Options;
use crate::own::OwnThread;
use crate::profile::Profile;
use crate::program::Program;
use crate::recorder::Recorder;
use crate::source::Source;
use crate::sys::calls;
use crate::{ProfileError, cpu, memory, symbols, wait};

/// Starts profiles of the process that it runs in.
#[derive(Debug, Clone, Copy)]
pub struct Profiler;

static BUSY: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

/// The right to take a profile of one kind; given back when dropped.
#[derive(Debug)]
pub struct Claim(Kind);

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

impl Claim {
    /// Begins a profile of all threads.
    ///
    /// Errors: `BadOption`, `Unavailable` if this process cannot be profiled that way, `System`.
    pub fn start(self, options: Options) -> Result<Session, ProfileError> {
        options.check()?;
        let source: Box<dyn Source> = match self.0 {
            Kind::Cpu => cpu::source(&options)?,
            Kind::Alloc => memory::source(&options)?,
            Kind::Lock => wait::source(&options)?,
        };
        let started_unix_ns = calls::unix_ns();
        let started_ns = calls::monotonic_ns();
        let collector = Collector::start(source)?;
        Ok(Session { collector, claim: self, started_unix_ns, started_ns, options })
    }

    /// Takes a profile for `duration`, and makes something of it, as a rule by [`Profile::render`]. Blocks the calling thread,
    /// which is left out of all profiles meanwhile. Ends early, without a profile, once the other end of `cancelled` is dropped.
    ///
    /// Errors: those of [`Claim::start`], [`Session::finish`] and `make`.
    pub fn record<T>(
        self,
        options: Options,
        duration: Duration,
        cancelled: &Receiver<Infallible>,
        make: impl FnOnce(Profile) -> Result<T, ProfileError>,
    ) -> Result<Option<T>, ProfileError> {
        let _own = OwnThread::register();
        let session = self.start(options)?;
        match cancelled.recv_timeout(duration) {
            Err(RecvTimeoutError::Timeout) => make(session.finish()?.ending_after(duration)).map(Some),
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Ok(never) => match never {},
        }
    }
}

impl Profiler {
    /// Reserves this kind of profile. Costs next to nothing; the claim's `start` is for a thread that may wait.
    ///
    /// Errors: `Busy` while another of the kind runs.
    pub fn claim(kind: Kind) -> Result<Claim, ProfileError> {
        let taken = BUSY[kind as usize].swap(true, Ordering::AcqRel);
        if taken { Err(ProfileError::Busy { kind }) } else { Ok(Claim(kind)) }
    }

    /// Begins a profile of all threads.
    ///
    /// Errors: those of [`Profiler::claim`] and [`Claim::start`].
    pub fn start(kind: Kind, options: Options) -> Result<Session, ProfileError> {
        Profiler::claim(kind)?.start(options)
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
            program: Program::this(),
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
            wait::classify(&mut profile, &self.options);
        }
        Ok(profile)
    }
}
