use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_runtime::{Address, Gate, Permit};
use ladoga_tls::{Failure, NodeTls, Session};

use super::core::Core;
use super::ending::hear_out;
use super::socket::Socket;

/// Handshakes of a node at a time. Each may hold some 64 KiB of what a client says; what they cost of a core is the same for any
/// number.
const HANDSHAKES_MAX: u64 = 256;
/// After so long, a handshake gives way to those that wait.
const HANDSHAKE_WINDOW_MS: u64 = 1_000;
/// How often one that waits asks for room.
const ROOM_ASKED_EVERY: Duration = Duration::from_millis(20);
/// How long a client that was refused may still be speaking.
const LINGERS: Duration = Duration::from_secs(1);
/// The first byte of a handshake (RFC 8446, 5.1).
const HANDSHAKE_RECORD: u8 = 22;

/// Room for so many handshakes at a time as a node makes.
pub fn handshakes(clock: Arc<dyn Clock>) -> Gate {
    Gate::new(HANDSHAKES_MAX, HANDSHAKE_WINDOW_MS, "the limit of TLS handshakes is reached", clock)
}

/// Makes the handshake of a connection that a client has made, within the time of a request. The error is counted.
pub(crate) async fn shake_hands(
    (socket, address): (&Socket, Address),
    core: &Core,
    (tls, room): (&NodeTls, &Gate),
    accept: impl FnOnce(&NodeTls) -> Result<Session, ladoga_tls::Error>,
) -> Result<(), Failure> {
    let patience = Duration::from_millis(core.limits.request_timeout_ms);
    let made = tokio::time::timeout(patience, make((socket, address), (tls, room), accept)).await;
    let made = made.unwrap_or(Err(Failure::Timeout));
    match made {
        Ok(()) => tls.figures.handshake(),
        Err(failure) => {
            tls.figures.failed(failure);
            linger(socket, core, failure).await;
        }
    }
    made
}

/// A client that is told why, by an alert, may be speaking: closing would discard what it was told.
async fn linger(socket: &Socket, core: &Core, failure: Failure) {
    let is_told = matches!(
        failure,
        Failure::NoCertificate | Failure::BadCertificate | Failure::Incompatible | Failure::Other
    );
    if is_told && socket.tcp().shut_down().is_ok() {
        let heard = hear_out(|context| socket.tcp().poll_read(context, &mut core.scratch()), true);
        // However that ends, the connection does.
        let _ = tokio::time::timeout(LINGERS, heard).await;
    }
}

async fn make(
    (socket, address): (&Socket, Address),
    (tls, gate): (&NodeTls, &Gate),
    accept: impl FnOnce(&NodeTls) -> Result<Session, ladoga_tls::Error>,
) -> Result<(), Failure> {
    let mut first = [0];
    // Nothing is kept for who says nothing.
    match poll_fn(|context| socket.tcp().poll_peek(context, &mut first)).await {
        Ok(1) if first[0] == HANDSHAKE_RECORD => {}
        Ok(1) => return Err(Failure::NotTls),
        Ok(_) | Err(_) => return Err(Failure::Closed),
    }
    let room = room(gate, address).await;
    let session = accept(tls).map_err(|_| Failure::Other)?;
    let (mut made, mut displaced) = (pin!(socket.secure_by(session)), pin!(room.watch()));
    poll_fn(|context| match made.as_mut().poll(context) {
        Poll::Pending => match displaced.as_mut().poll(context) {
            Poll::Ready(Err(_)) => Poll::Ready(Err(Failure::Displaced)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        },
        Poll::Ready(made) => Poll::Ready(made.map_err(|error| {
            tracing::debug!(%error, "a TLS handshake came to nothing");
            Failure::of(&error)
        })),
    })
    .await
}

/// Room for a handshake, once there is some.
async fn room(gate: &Gate, address: Address) -> Permit {
    loop {
        if let Ok(permit) = gate.enter(address, 1) {
            permit.granted().await;
            permit.waits();
            return permit;
        }
        tokio::time::sleep(ROOM_ASKED_EVERY).await;
    }
}
