use std::future::poll_fn;
use std::net::{IpAddr, Shutdown};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use ladoga_env::is_out_of_descriptors;
use ladoga_runtime::{LineLimit, open_connections};
use parking_lot::Mutex;
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::event_loop::EventLoop;
use super::protocol::Protocol;
use super::shared::{HandedOver, HandedOvers};

/// How long no connection is accepted after the system had no room for one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Lines about that which an event loop writes within a second: near the limit of open files, each connection that ends makes room for one,
/// and the next one has none again.
const LINES_PER_SECOND_MAX: u32 = 1;

/// Held while a connection is accepted. Descriptors are the process's: what one loop gives up for a connection that it has to
/// refuse, another one would take for a connection that it serves.
static ACCEPTING: Mutex<()> = Mutex::new(());

/// Accepts connections. The system spreads them over the listeners by chance, which for a handful of connections
/// may mean all on one; so each goes on to the loop that has the fewest.
pub(super) async fn accept<P: Protocol>(
    event_loop: Rc<EventLoop<P>>,
    (listener, entrance): (TcpListener, usize),
) {
    let (mut spare, mut is_told) = (spare(), false);
    let lines = LineLimit::new(LINES_PER_SECOND_MAX);
    loop {
        let accepted = poll_fn(|context| {
            let _accepting = ACCEPTING.lock();
            listener.poll_accept(context)
        });
        let error = match accepted.await {
            Ok((socket, from)) if spare.is_some() => {
                is_told = false;
                place(&event_loop, (socket, from.ip()), entrance);
                continue;
            }
            // The next one could not even be refused.
            Ok((socket, _)) => {
                spare = refuse_for_good(&event_loop, (socket, entrance));
                continue;
            }
            Err(error) => error,
        };
        if !is_told && lines.admit(event_loop.context.clock.monotonic_ns()) {
            tracing::warn!(%error, "cannot accept connections");
            is_told = true;
        }
        if is_out_of_descriptors(error.raw_os_error()) && spare.is_some() {
            spare = poll_fn(|context| {
                Poll::Ready(refuse_next(&event_loop, (&listener, entrance), spare.take(), context))
            })
            .await;
        } else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            spare = spare.or_else(self::spare);
        }
    }
}

/// Refuses one waiting connection when the process is out of descriptors. It closes the spare descriptor to have one for
/// accepting.
fn refuse_next<P: Protocol>(
    event_loop: &EventLoop<P>,
    (listener, entrance): (&TcpListener, usize),
    spare: Option<OwnedFd>,
    context: &mut Context<'_>,
) -> Option<OwnedFd> {
    let _accepting = ACCEPTING.lock();
    drop(spare);
    match listener.poll_accept(context) {
        Poll::Ready(Ok((socket, _))) => refuse_for_good(event_loop, (socket, entrance)),
        Poll::Ready(Err(_)) | Poll::Pending => self::spare(),
    }
}

/// Refuses a connection, and keeps what it had for the next one: closed, somebody else might take it.
fn refuse_for_good<P: Protocol>(
    event_loop: &EventLoop<P>,
    (socket, entrance): (TcpStream, usize),
) -> Option<OwnedFd> {
    refuse(event_loop, (&socket, entrance), "the limit of open files and connections is reached (ulimit -n)");
    let socket = socket.into_std().ok()?;
    // If the client is gone, there is nobody to answer.
    let _ = socket.shutdown(Shutdown::Write);
    Some(OwnedFd::from(socket))
}

/// A descriptor to be given up for a connection that is to be refused.
fn spare() -> Option<OwnedFd> {
    Socket::new(Domain::UNIX, Type::DGRAM, None).ok().map(OwnedFd::from)
}

fn refuse<P: Protocol>(event_loop: &EventLoop<P>, (socket, entrance): (&TcpStream, usize), bound: &str) {
    event_loop.context.metrics.connection_refused();
    // A fresh socket has room for it; were there none, the client would notice the end all the same.
    let _ = socket.try_write(&event_loop.protocol.refusal(bound, entrance));
}

/// Serves the connections that other loops accepted.
pub(super) async fn receive<P: Protocol>(
    event_loop: Rc<EventLoop<P>>,
    mut handed_over: HandedOvers<P::Known>,
) {
    while let Some(HandedOver { socket, from, entrance, known }) = handed_over.recv().await {
        match TcpStream::from_std(socket) {
            Ok(socket) => event_loop.serve((socket, from), entrance, known),
            Err(error) => {
                event_loop.context.metrics.disconnected();
                tracing::warn!(%error, "cannot serve a connection");
            }
        }
    }
}

fn place<P: Protocol>(event_loop: &Rc<EventLoop<P>>, (socket, from): (TcpStream, IpAddr), entrance: usize) {
    let shared = &event_loop.shared;
    if open_connections(&shared.metrics.loops) >= shared.limits.connections_max as u64 {
        return refuse(event_loop, (&socket, entrance), "the limit of connections is reached");
    }
    let own = event_loop.context.metrics.connections();
    let (least_loaded, least) = shared.least_loaded();
    if event_loop.context.index < shared.shares.serving() && least >= own {
        event_loop.context.metrics.connected();
        event_loop.serve((socket, from), entrance, None);
        return;
    }
    shared.metrics.loops[least_loaded].connected();
    let sent = socket.into_std().map(|socket| {
        shared.hand_overs[least_loaded].send(HandedOver { socket, from, entrance, known: None }).is_ok()
    });
    if !matches!(sent, Ok(true)) {
        // That loop is draining, and so will this one in a moment.
        shared.metrics.loops[least_loaded].disconnected();
    }
}
