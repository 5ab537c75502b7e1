use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use ladoga_profiler::{Claim, Options, ProfileError, Profiler};
use tokio::sync::oneshot;

use crate::http::ProfileTarget;

/// Where threads of a node wait because there is nothing to do: no part of a lock profile.
const IDLE_FUNCTIONS: [&str; 2] =
    ["ladoga_env::real::workers::wait_for_work", "ladoga_storage::engine::background::BackgroundWork::wait"];

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfilingError {
    /// An error of the profiler.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The system has no thread to take it on.
    #[error("cannot start a thread for the profile: {0}")]
    NoThread(#[source] io::Error),
    /// Its thread ended early.
    #[error("the profile thread panicked; see the log")]
    Lost,
}

/// A profile in the format that was asked for.
pub(crate) struct Rendered {
    pub(crate) samples: usize,
    pub(crate) bytes: Bytes,
}

/// A profile of this process, being taken on a thread of its own: at most one of a kind at a time. Dropped, it ends.
pub(crate) struct Profiling {
    rendered: oneshot::Receiver<Result<Rendered, ProfileError>>,
    /// Tells the thread to give up, by being dropped.
    _canceller: mpsc::Sender<Infallible>,
}

impl Profiling {
    /// Begins one. Waits for nothing.
    pub(crate) fn start(target: ProfileTarget) -> Result<Profiling, ProfilingError> {
        let claim = Profiler::claim(target.kind)?;
        let (canceller, cancelled) = mpsc::channel();
        let (report, rendered) = oneshot::channel();
        let thread = thread::Builder::new().name(format!("profile-{}", target.kind));
        let body = move || {
            // If the client is gone, the outcome is dropped.
            if let Some(outcome) = take(claim, &target, &cancelled).transpose() {
                let _ = report.send(outcome);
            }
        };
        thread.spawn(body).map_err(ProfilingError::NoThread)?;
        Ok(Profiling { rendered, _canceller: canceller })
    }
}

fn take(
    claim: Claim,
    target: &ProfileTarget,
    cancelled: &mpsc::Receiver<Infallible>,
) -> Result<Option<Rendered>, ProfileError> {
    let options = Options { idle_functions: &IDLE_FUNCTIONS, ..target.options.clone() };
    claim.record(options, target.duration, cancelled, |profile| {
        let samples = profile.samples.len();
        Ok(Rendered { samples, bytes: Bytes::from(profile.render(target.format)?) })
    })
}

impl Future for Profiling {
    type Output = Result<Rendered, ProfilingError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.rendered)
            .poll(context)
            .map(|report| Ok(report.map_err(|_| ProfilingError::Lost)??))
    }
}
