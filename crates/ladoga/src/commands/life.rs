//! What ends a node, and what it does meanwhile.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use ladoga_lab::SAME_WISH;
use ladoga_node::StartError;
use sd_notify::NotifyState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::{Failure, notify};
use crate::settings::Settings;

/// Runs a blocking call on a thread, so that signals are still handled.
pub(super) fn on_a_thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<oneshot::Receiver<T>, Failure> {
    let (done, when_done) = oneshot::channel();
    // If nothing waits any more, the process is about to end.
    let work = move || drop(done.send(work()));
    thread::Builder::new().name(name.to_owned()).spawn(work)?;
    Ok(when_done)
}

pub(super) fn failed(error: impl Display) -> Failure {
    Failure::Failed(error.to_string())
}

/// The flag whose address cannot be listened on is named: there are two.
pub(super) fn cannot_start(settings: &Settings, error: &StartError) -> Failure {
    match error {
        StartError::Listen(listen) => {
            let flag = if settings.listen.contains(&listen.address) { "--listen" } else { "--resp" };
            Failure::Failed(format!("{error}. Give another address with {flag}"))
        }
        StartError::EventLoop(_) => failed(error),
    }
}

/// The signals that end a node.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for one; answers its name.
    async fn next(&mut self) -> &'static str {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<&'static str> {
        if self.terminate.poll_recv(context).is_ready() {
            Poll::Ready("SIGTERM")
        } else {
            self.interrupt.poll_recv(context).map(|_| "SIGINT")
        }
    }

    /// The result of `future`, or the name of the signal that came first.
    pub(super) async fn unless_one_comes<T>(
        &mut self,
        future: impl Future<Output = T>,
    ) -> Result<T, &'static str> {
        let mut future = pin!(future);
        let mut signal = pin!(self.next());
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Ok(done)),
            Poll::Pending => signal.as_mut().poll(context).map(Err),
        })
        .await
    }

    /// The result of what stops the node, unless a signal later than [`SAME_WISH`] asks to stop at once.
    pub(super) async fn unless_one_insists<T>(
        &mut self,
        stopped: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        let mut stopped = pin!(stopped);
        if let Ok(done) = tokio::time::timeout(SAME_WISH, stopped.as_mut()).await {
            return Ok(done);
        }
        while self.poll_next(&mut Context::from_waker(Waker::noop())).is_ready() {}
        self.unless_one_comes(stopped)
            .await
            .map_err(|_| Failure::Failed("a second signal: stopped at once, as by a crash".to_owned()))
    }
}

/// Waits for `future`, and tells systemd meanwhile that this process still runs.
pub(super) async fn watched<T>(future: impl Future<Output = T>) -> T {
    let Some(period) = notify::watchdog_period() else { return future.await };
    let mut future = pin!(future);
    loop {
        match tokio::time::timeout(period, future.as_mut()).await {
            Ok(done) => return done,
            Err(_) => notify::tell(NotifyState::Watchdog),
        }
    }
}
