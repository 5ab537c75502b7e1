use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use ladoga_http1::StatusCode;
use ladoga_http1::server::{BadRequest, Overdue, ReplyHead, ReplyLength, Request};
use ladoga_runtime::Taken;
use ladoga_server::Connection;
use ladoga_service::{KeyValue, Later};
use ladoga_tls::Failure;

use crate::connection::{
    Core, Departure, Following, Link, NoRequest, StreamError, Streamed, Upcoming, hear_out, write_all,
    write_changes, write_counted, write_stream, yield_once,
};
use crate::door::Door;
use crate::handlers::{
    self, Audited, Outcome, Reply, announced_bytes, known_bytes, tell_answered, tell_last,
};
use crate::http::{Answer, ETag, EVENTS, LIVE, NDJSON, Refusal, key_to_read};
use crate::slow::BegunRequest;

/// A body up to this length is copied behind its head; a longer one is written from its own buffer.
const COPIED_BYTES_MAX: usize = 16 << 10;
/// Answers that wait for others to be written with them.
const ANSWERS_BYTES_MAX: usize = 64 << 10;
/// An unread body of up to this size that has arrived is read and discarded: that costs both sides less than another
/// connection.
const UNREAD_BODY_BYTES_MAX: u64 = 64 << 10;
/// Requests that are served before other connections have their turn, if all have arrived at once.
const TURN_REQUESTS_MAX: u32 = 64;

/// How a connection ends.
enum CloseReason {
    /// Every request has been answered.
    Over,
    /// Every request has been answered, and the client may still be sending what is none.
    Interrupted,
    /// With this last answer, while the client may still be sending.
    Say(Refusal),
    /// Without an answer: nobody would read it.
    Drop,
    /// So that the client notices that something is missing.
    Abort,
    /// Only here: another event loop goes on with it.
    Move(Leaving),
}

/// A connection that another event loop is to go on with.
pub(crate) enum Leaving {
    /// A client's, between two requests.
    Clients(Departure),
    /// One that a peer has asked for, before its first byte is understood.
    Peers {
        departure: Departure,
        /// What was read of it.
        ahead: BytesMut,
        /// The number of the loop.
        to: usize,
    },
}

/// What a connection is told that is not served, because of this bound.
pub(crate) fn refusal(core: &Core, bound: &str) -> Vec<u8> {
    Refusal::over_capacity(bound).into_last_bytes(&core.date())
}

/// Serves a connection until it ends, or another event loop is to go on with it.
pub(crate) async fn serve<K: KeyValue>(door: Rc<Door<K>>, link: Rc<Link>) -> Option<Leaving> {
    let core = &door.core;
    // Boxed, so that connections without TLS are no larger for it.
    let tls = door.access.tls.as_ref().filter(|_| !link.is_secure());
    let handshake = tls.map(|tls| Box::pin(link.shake_hands(tls, &door.handshakes)));
    let failed = match handshake {
        Some(handshake) => handshake.await.err(),
        None => None,
    };
    let parting = match failed {
        Some(failure) => after_no_handshake(failure),
        None => match link.ending.unless_ended(converse(&door, &link)).await {
            Ok(parting) => parting,
            Err(overdue) => when_overdue(overdue, core, &link),
        },
    };
    match parting {
        CloseReason::Move(leaving) => return Some(leaving),
        CloseReason::Drop => {}
        CloseReason::Abort => link.abort_on_drop(),
        CloseReason::Say(refusal) => {
            tell_last(&door, &link, refusal.status(), refusal.text_bytes());
            let bytes = refusal.into_last_bytes(&core.date());
            part(&link, &bytes, true).await;
        }
        CloseReason::Over => part(&link, &[], false).await,
        CloseReason::Interrupted => part(&link, &[], true).await,
    }
    None
}

/// Serves one request after the other, in the order in which they arrive.
async fn converse<K: KeyValue>(door: &Rc<Door<K>>, link: &Rc<Link>) -> CloseReason {
    if link.is_peers() {
        return serve_as_peer(door, link).await;
    }
    let mut served = 0;
    loop {
        let request = match poll_fn(|context| link.poll_next(context)).await {
            Ok(Upcoming::Request(request)) => request,
            Ok(Upcoming::End) => return CloseReason::Over,
            Ok(Upcoming::Move(departure)) => return CloseReason::Move(Leaving::Clients(departure)),
            Err(no_request) => return after_no_request(&no_request),
        };
        let started_ns = door.core.clock.monotonic_ns();
        meet_others(door, link, &request).await;
        if let Some(parting) = answer(door, link, request, started_ns).await {
            return parting;
        }
        served += 1;
        if served % TURN_REQUESTS_MAX == 0 {
            yield_once().await;
        }
    }
}

/// Has what a read will look up be fetched together with what others will that have arrived in the same turn.
async fn meet_others<K: KeyValue>(door: &Door<K>, link: &Link, request: &Request) {
    // What has arrived behind it would wait, too.
    if let Some(key) = key_to_read(request)
        && !link.http().has_input()
        && let Ok(service) = door.service()
    {
        door.core.together.meet(key, |keys| service.fetch_ahead(keys)).await;
    }
}

/// A client that speaks without TLS is told so; with any other, there are no words in common.
fn after_no_handshake(failure: Failure) -> CloseReason {
    match failure {
        Failure::NotTls => CloseReason::Say(
            Refusal::bad_request("this port speaks TLS, and this is plain text; expected https://")
                .and_close(),
        ),
        _ => CloseReason::Drop,
    }
}

fn after_no_request(no_request: &NoRequest) -> CloseReason {
    match no_request {
        NoRequest::Bad(BadRequest::TooLarge) => CloseReason::Say(Refusal::headers_too_large()),
        NoRequest::Bad(BadRequest::Incomplete) | NoRequest::Socket(_) => {
            tracing::debug!(error = %no_request, "a connection broke");
            CloseReason::Drop
        }
        NoRequest::Bad(bad) => {
            CloseReason::Say(Refusal::bad_request(format_args!("malformed request: {bad}")).and_close())
        }
    }
}

/// Serves a request that arrived then. Answers how the connection ends, if it does.
async fn answer<K: KeyValue>(
    door: &Rc<Door<K>>,
    link: &Rc<Link>,
    request: Request,
    started_ns: u64,
) -> Option<CloseReason> {
    let core = &door.core;
    let (audited, announced_bytes) = (Audited::begin(door, &request), announced_bytes(&request));
    link.asked.begin_anew();
    let (operation, reply) = handlers::handle(door, link, request, started_ns);
    let audited = audited.map(|audited| audited.begun(door, link, operation));
    let (begun, is_at_once) =
        (BegunRequest { operation, started_ns, announced_bytes }, matches!(reply, Reply::Now(_)));
    let outcome = match reply {
        Reply::Now(outcome) => outcome,
        Reply::Later(later) => {
            link.asked.note_waiting(begun);
            wait_for(link, later).await
        }
    };
    let status = match &outcome {
        Outcome::Answer(answer) => answer.status,
        Outcome::Stream(_) | Outcome::Follow(_) | Outcome::Exchange(_) => StatusCode::OK,
        Outcome::Peer(_) => StatusCode::SWITCHING_PROTOCOLS,
    };
    if let Some(audited) = audited {
        audited.end(door, status);
    }
    // A batch tells when it writes its head: until then, its connection may still have to say something else.
    if !matches!(outcome, Outcome::Exchange(_)) {
        tell_answered(door, link, begun, (status, known_bytes(link, &outcome)), is_at_once);
    }
    let written = match outcome {
        Outcome::Answer(answer) => write_answer(core, link, &answer).await.map_err(StreamError::from),
        Outcome::Stream(streamed) => stream(core, link, *streamed).await,
        // Boxed, so that connections which follow nothing are no larger for it.
        Outcome::Follow(following) => Box::pin(follow(door, link, following)).await,
        Outcome::Exchange(exchange) => exchange.await,
        Outcome::Peer(of_loop) => return Some(begin_as_peer(door, link, of_loop).await),
    };
    match written {
        Ok(()) if link.http().keeps_alive() => None,
        Ok(()) => Some(CloseReason::Over),
        Err(error) => Some(after_stream_error(core, link, &error)),
    }
}

/// What becomes of a request. Answers to those before do not wait for it.
async fn wait_for(link: &Link, mut later: Later<Result<Outcome, Refusal>>) -> Outcome {
    let outcome = poll_fn(|context| {
        let outcome = later.as_mut().poll(context);
        if outcome.is_pending() {
            // What is wrong with writing shows when this one is answered.
            let _ = link.poll_flush_counted(context);
        }
        outcome
    });
    let outcome = outcome.await.unwrap_or_else(Outcome::from);
    link.unread.hold_beside(0);
    outcome
}

async fn write_answer(core: &Core, link: &Link, answer: &Answer) -> io::Result<()> {
    if !answer.is_last {
        discard_unread(link).await;
    }
    let (content, length) = (answer.body.content(), ReplyLength::Known(answer.body.length()));
    let mut fields = [("", &b""[..]); Answer::FIELDS_MAX];
    let fields = answer.fields(&mut fields);
    let status = answer.status;
    begin(core, link, &ReplyHead { status, fields, length, date: &core.date() }, answer.is_last);
    let has_no_body = link.http().has_no_body();
    let content = if has_no_body { &[] } else { content };
    link.sent(content.len() as u64);
    if content.len() > COPIED_BYTES_MAX {
        return write_counted(link, content).await;
    }
    link.http().send(content);
    if link.http().unsent().len() > ANSWERS_BYTES_MAX {
        return poll_fn(|context| link.poll_flush_counted(context)).await;
    }
    Ok(())
}

/// Writes an answer that is not in memory. If the body of its request was left unread, it is the connection's last.
async fn stream(core: &Core, link: &Link, streamed: Streamed) -> Result<(), StreamError> {
    let etag = streamed.etag;
    let all = [
        ("etag", etag.as_ref().map(ETag::as_bytes)),
        ("ladoga-expires", streamed.expires.as_deref().map(str::as_bytes)),
        streamed.field.as_ref().map_or(("", None), |field| (field.name(), Some(field.value().as_bytes()))),
    ];
    let (mut fields, mut count) = ([("content-type", streamed.content_type.as_bytes()); 4], 1);
    for (name, value) in all {
        if let Some(value) = value {
            fields[count] = (name, value);
            count += 1;
        }
    }
    let (status, fields) = (StatusCode::OK, &fields[..count]);
    let length = streamed.bytes.map_or(ReplyLength::Unknown, ReplyLength::Known);
    begin(core, link, &ReplyHead { status, fields, length, date: &core.date() }, false);
    write_stream(link, streamed).await
}

/// Writes changes for as long as the client likes.
async fn follow<K: KeyValue>(door: &Door<K>, link: &Link, following: Following) -> Result<(), StreamError> {
    let core = &door.core;
    let content_type = if following.lines.is_events { EVENTS } else { NDJSON };
    let fields = [("content-type", content_type.as_bytes()), LIVE[0], LIVE[1]];
    let (status, length) = (StatusCode::OK, ReplyLength::Unknown);
    begin(core, link, &ReplyHead { status, fields: &fields, length, date: &core.date() }, false);
    link.follows.set(true);
    let written = write_changes(core, link, &door.streams, following).await;
    link.follows.set(false);
    written
}

/// Writes the head of an answer. While the node drains, who was there before gets no other.
fn begin(core: &Core, link: &Link, head: &ReplyHead<'_>, is_last: bool) {
    link.http().begin_answer(head, is_last || (core.is_draining() && !link.is_late()));
}

fn after_stream_error(core: &Core, link: &Link, error: &StreamError) -> CloseReason {
    match error {
        StreamError::Displaced(_) if !link.http().has_begun_answer() => {
            core.metrics.displaced(Taken::Stream);
            return CloseReason::Say(Refusal::displaced_batch());
        }
        StreamError::Socket(_) | StreamError::Left => tracing::debug!(%error, "a response was aborted"),
        StreamError::Displaced(_) => {
            core.metrics.displaced(Taken::Stream);
            tracing::debug!(%error, "a response was aborted");
        }
        StreamError::Store(_) => tracing::warn!(%error, "a response was aborted"),
    }
    core.metrics.cut_off();
    CloseReason::Abort
}

/// Discards what has arrived of an unread body, so that the connection can go on with the next request. It goes on
/// while turns of the loop bring more of it, and does not wait for what arrives later.
async fn discard_unread(link: &Link) {
    if link.http().has_whole_body()
        || link.http().unread_bytes().is_none_or(|left| left > UNREAD_BODY_BYTES_MAX)
    {
        return;
    }
    let mut has_yielded = false;
    loop {
        let (count, is_all) = link.http().discard_body();
        if is_all || (count == 0 && has_yielded) || link.http().has_ended() {
            return;
        }
        let received = poll_fn(|context| Poll::Ready(link.poll_receive(context))).await;
        match received {
            Poll::Ready(Ok(())) => has_yielded = false,
            Poll::Ready(Err(_)) => return,
            Poll::Pending if has_yielded => return,
            Poll::Pending => {
                has_yielded = true;
                yield_once().await;
            }
        }
    }
}

/// Has the event loop serve a connection that a peer has asked for which has the number of the peer's own: so nodes of which one
/// loop serves have one that is busy, and those of which more do have their work spread over as many.
async fn begin_as_peer<K: KeyValue>(
    door: &Rc<Door<K>>,
    link: &Rc<Link>,
    of_loop: Option<usize>,
) -> CloseReason {
    // Where there are fewer, the number counts around.
    let to = of_loop.map(|number| number % door.metrics.loops.len());
    if let Some(to) = to.filter(|to| *to != door.core.index) {
        if poll_fn(|context| link.poll_flush(context)).await.is_err() {
            return CloseReason::Drop;
        }
        if let Some((departure, ahead)) = link.depart_as_peers() {
            return CloseReason::Move(Leaving::Peers { departure, ahead, to });
        }
    }
    serve_as_peer(door, link).await
}

/// Serves a connection that a peer has asked for.
async fn serve_as_peer<K: KeyValue>(door: &Rc<Door<K>>, link: &Rc<Link>) -> CloseReason {
    // The handler saw to it that there is one.
    let Some(cluster) = &door.cluster else { return CloseReason::Drop };
    link.peer_begins();
    let protocol = cluster.protocol();
    let switching =
        format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n");
    let serving = async {
        write_all(link, switching.as_bytes()).await?;
        cluster.serve_peer(link).await
    };
    match serving.await {
        Ok(()) => CloseReason::Over,
        Err(error) => {
            tracing::debug!(%error, "a connection of a peer broke");
            // What the system still has for it would be lost if the connection ended while it is sending.
            let is_sending = error.kind() == io::ErrorKind::InvalidData;
            if is_sending { CloseReason::Interrupted } else { CloseReason::Drop }
        }
    }
}

fn when_overdue(overdue: Overdue, core: &Core, link: &Link) -> CloseReason {
    let timeout_ms = core.limits.request_timeout_ms;
    // Who has got a part of an answer would take another one for the rest of it.
    let is_answered = link.http().has_begun_answer();
    match overdue {
        Overdue::Head => CloseReason::Say(Refusal::request_timeout("head", timeout_ms)),
        Overdue::Body if !is_answered => CloseReason::Say(Refusal::request_timeout("body", timeout_ms)),
        Overdue::Body | Overdue::Answer => {
            core.metrics.cut_off();
            CloseReason::Abort
        }
        Overdue::Idle => CloseReason::Drop,
    }
}

/// Writes the last answer. If the client is still sending, or may be, it waits for the end of that, though not for long.
async fn part(link: &Link, last: &[u8], is_interrupted: bool) {
    let may_be_sending = link.begins_to_linger() || is_interrupted;
    let end = async {
        link.http().send(last);
        poll_fn(|context| link.poll_flush(context)).await?;
        link.shut_down()?;
        hear_out(|context| link.poll_discard(context), may_be_sending).await
    };
    // However that ends, the connection does.
    let _ = link.ending.unless_ended(end).await;
}
