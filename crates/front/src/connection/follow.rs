use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use ladoga_access::{Scope, Scopes};
use ladoga_runtime::{Gate, OverCapacity, Permit};
use ladoga_service::{ChangePiece, Follower, KeySpan};
use tokio::time::{Instant, sleep, sleep_until};

use super::core::Core;
use super::link::Link;
use super::stream::{StreamError, write_all, write_unless_displaced};
use crate::auth::Unauthorized;
use crate::http::{ChangeLines, Refusal};

/// After so long without a change, a client is given a sign that it would be told of one.
const SILENCE: Duration = Duration::from_secs(15);
/// How often it is looked whether the token of who follows still allows it, while there is nothing to tell.
const CALLER_EVERY: Duration = Duration::from_secs(2);
/// How soon a place among the answers that are read is asked for again.
const PERMIT_RETRY: Duration = Duration::from_millis(20);

/// An answer that goes on for as long as its client likes.
pub(crate) struct Following {
    pub(crate) follower: Box<dyn Follower>,
    /// Of which keys.
    pub(crate) span: KeySpan,
    pub(crate) lines: ChangeLines,
}

/// What ended a wait.
pub(crate) enum Next {
    /// There may be more.
    More,
    /// There was nothing in time.
    Silence,
    /// The client has closed its side.
    Left,
    /// The node is about to stop.
    Drain,
    /// The token of who follows does not count any more, or does not allow it.
    Revoked(Refusal),
}

/// Why a follower gets no place among the answers that are read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPlace {
    /// Others had all of them for as long as it would wait.
    #[error(transparent)]
    Full(#[from] OverCapacity),
    /// The client has closed its side.
    #[error(
        "the connection was closed for sending while its request waited for changes, expected it to stay open"
    )]
    Left,
}

impl From<NoPlace> for Refusal {
    fn from(why: NoPlace) -> Refusal {
        match why {
            NoPlace::Full(full) => full.into(),
            NoPlace::Left => Refusal::unavailable(why).and_close(),
        }
    }
}

/// Whether who follows these keys may still do so: its token may have been revoked meanwhile, or replaced by one that allows less.
pub(crate) fn check_follower(link: &Link, span: &KeySpan) -> Result<(), Refusal> {
    if !link.has_valid_caller() {
        return Err(Refusal::unauthorized(Unauthorized::Invalid));
    }
    let Some(caller) = link.caller() else { return Ok(()) };
    let checked = caller.check(Scopes::of(&[Scope::Changes])).and_then(|()| caller.check_span(span));
    checked.map_err(Refusal::denied)
}

/// A place among the answers that are read and written: while it reads and writes, a follower is one of them. It is waited for up to
/// this moment, if any; `None` if the node is about to stop.
pub(crate) async fn stream_permit(
    core: &Core,
    link: &Link,
    streams: &Gate,
    until: Option<Instant>,
) -> Result<Option<Permit>, NoPlace> {
    loop {
        if core.is_draining() {
            return Ok(None);
        }
        match streams.enter(link.address(), 1) {
            Ok(permit) => {
                permit.granted().await;
                return Ok(Some(permit));
            }
            Err(full) if until.is_some_and(|until| Instant::now() >= until) => return Err(full.into()),
            Err(_) => {}
        }
        let mut retry = pin!(sleep(PERMIT_RETRY));
        poll_fn(|context| match link.poll_left(context) {
            Poll::Ready(()) => Poll::Ready(Err(NoPlace::Left)),
            Poll::Pending => retry.as_mut().poll(context).map(Ok),
        })
        .await?;
    }
}

/// Waits until there may be more to tell, up to this moment, and for as long as who follows may do so.
pub(crate) async fn wait_for_more(
    core: &Core,
    link: &Link,
    (follower, span): (&mut dyn Follower, &KeySpan),
    until: Instant,
) -> Next {
    let has_token = link.caller().is_some();
    loop {
        let look = if has_token { until.min(Instant::now() + CALLER_EVERY) } else { until };
        match wait_until(core, link, follower, look).await {
            Next::Silence => {
                if let Err(refusal) = check_follower(link, span) {
                    return Next::Revoked(refusal);
                }
                if look == until {
                    return Next::Silence;
                }
            }
            next => return next,
        }
    }
}

async fn wait_until(core: &Core, link: &Link, follower: &mut dyn Follower, until: Instant) -> Next {
    let mut silence = pin!(sleep_until(until));
    poll_fn(|context| {
        if core.is_draining() {
            return Poll::Ready(Next::Drain);
        }
        if follower.poll_more(context).is_ready() {
            return Poll::Ready(Next::More);
        }
        if link.poll_left(context).is_ready() {
            return Poll::Ready(Next::Left);
        }
        silence.as_mut().poll(context).map(|()| Next::Silence)
    })
    .await
}

/// Writes changes as they come, behind the head of the answer, until the client leaves, its token no longer allows it, or the node
/// is about to stop.
pub(crate) async fn write_changes(
    core: &Core,
    link: &Link,
    streams: &Gate,
    following: Following,
) -> Result<(), StreamError> {
    let Following { mut follower, span, lines } = following;
    poll_fn(|context| link.poll_flush(context)).await?;
    let (mut told, mut silent_until) = (None, Instant::now() + SILENCE);
    // The token is looked at last: a place may have been waited for.
    while let Ok(Some(permit)) = stream_permit(core, link, streams, None).await
        && check_follower(link, &span).is_ok()
    {
        let (ChangePiece { bytes, token, is_all }, rest) = follower.next().await?;
        follower = rest;
        let is_silent = Instant::now() >= silent_until;
        // A place is told at the beginning, behind changes, and now and then.
        let is_due = !bytes.is_empty() || is_silent || told.is_none();
        let news = token.filter(|token| is_due && told.as_ref() != Some(token));
        let mut out = lines.changes(bytes, news.as_deref());
        if out.is_empty() && is_silent {
            out = lines.alive();
        }
        told = news.or(told);
        if !out.is_empty() {
            write_unless_displaced(link, &permit, &out).await?;
            link.sent(out.len() as u64);
            silent_until = Instant::now() + SILENCE;
        }
        drop((permit, out));
        if !is_all {
            tokio::task::yield_now().await;
            continue;
        }
        link.http().give_back();
        match wait_for_more(core, link, (&mut *follower, &span), silent_until).await {
            Next::More | Next::Silence => {}
            Next::Left | Next::Drain | Next::Revoked(_) => break,
        }
    }
    Ok(write_all(link, &lines.end()).await?)
}
