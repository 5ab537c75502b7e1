use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use ladoga_env::Stream;
use ladoga_http1::answer::{Asked, Event, Head, Reader};
use ladoga_model::Quote;
use ladoga_runtime::KEEP_ALIVE;
use ladoga_tls::client::words::{self, Hints};
use tokio::io::ReadBuf;

use super::dial::dial;
use super::error::PeerError;
use super::peer_link::{IDLE, PeerLink, Phase};
use crate::cluster::authority_of;
use crate::wire::{Answer, Frame, Hello, Request, Versions, take_frame};

/// Bytes that stay allocated for the send buffer; more is freed after use.
const BUFFER_BYTES_KEPT: usize = 64 << 10;
/// What a node answers with if it does not go on as a peer.
const REFUSED_WITH: [u16; 8] = [400, 401, 403, 408, 426, 429, 431, 503];
/// The type of the reason.
const REASON_TYPE: &[u8] = b"text/plain; charset=utf-8";

impl PeerLink {
    /// One connection, from its making to its end.
    pub(crate) async fn connect_and_converse(self: &Rc<Self>) -> PeerError {
        let timeout_ms = self.cluster.limits.peer_connect_timeout_ms;
        let connected = tokio::time::timeout(Duration::from_millis(timeout_ms), self.connect()).await;
        let (socket, input) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => return error,
            Err(_) => {
                let name = &self.view.name;
                let line = if name.is_looked_up() {
                    format!(
                        "the resolver is silent about {}, expected an address within {timeout_ms} ms",
                        name.host()
                    )
                } else {
                    format!("no greeting, expected one within {timeout_ms} ms")
                };
                return PeerError::Unreachable(line.into());
            }
        };
        self.phase.set(Phase::Up);
        self.connection.set(self.connection.get() + 1);
        self.view.connections.fetch_add(1, Ordering::Relaxed);
        self.view.connects.fetch_add(1, Ordering::Relaxed);
        self.heard();
        self.converse(socket, input).await
    }

    /// Resolves the peer's name, connects, asks for the upgrade, and greets.
    async fn connect(&self) -> Result<(Box<dyn Stream>, BytesMut), PeerError> {
        let unreachable = |error: std::io::Error| PeerError::Unreachable(error.to_string().into());
        let view = &self.view;
        let addresses = view.name.addresses(&*self.cluster.net).await.map_err(unreachable)?;
        let mut socket = dial(&*self.cluster.net, &addresses).await.map_err(unreachable)?;
        socket.keep_alive(&KEEP_ALIVE).map_err(unreachable)?;
        if let Some(tls) = self.cluster.tls() {
            let secured = tls.connect(socket, view.name.host()).await;
            socket = secured.map_err(|error| match error.kind() {
                // What is wrong with certificates does not mend itself.
                ErrorKind::InvalidData => PeerError::Refused(error.to_string().into()),
                _ => unreachable(error),
            })?;
        }
        let authority = authority_of(&view.url);
        let authorization = self.cluster.authorization_field(&view.url);
        let mut output = BytesMut::from(
            format!(
                "GET /v0/peer HTTP/1.1\r\nhost: {authority}\r\nconnection: upgrade\r\nupgrade: {}\r\n\
                 ladoga-loop: {}\r\n{authorization}\r\n",
                crate::UPGRADE,
                self.core.index
            )
            .as_bytes(),
        );
        let hello = self.cluster.hello();
        Request::Hello(hello).put(&mut output, u32::MAX);
        write_all(&mut *socket, &mut output).await.map_err(unreachable)?;
        let mut input = BytesMut::new();
        read_head(&view.url, &mut *socket, &mut input).await?;
        let theirs = read_hello(&view.url, &mut *socket, &mut input).await?;
        self.check(&theirs)?;
        Ok((socket, input))
    }

    fn check(&self, theirs: &Hello) -> Result<(), PeerError> {
        let refused = |line: String| PeerError::Refused(line.into());
        let peer = self.cluster.greeted(&self.core, theirs).map_err(refused)?;
        if peer.id != self.view.id {
            return Err(refused(format!("it answers as {}: see its --advertise", peer.url)));
        }
        let common = Versions::OWN.common(theirs.versions);
        self.version.set(common.expect("nodes without a common version refuse each other"));
        Ok(())
    }

    /// Writes what is queued and reads what arrives, until the connection ends.
    async fn converse(&self, mut socket: Box<dyn Stream>, mut input: BytesMut) -> PeerError {
        let mut output = BytesMut::new();
        poll_fn(|context| {
            self.driven_by(context);
            if self.is_frozen.get() {
                return Poll::Ready(self.silence());
            }
            if let Err(error) = self.take(&mut *socket, &mut input, context) {
                return Poll::Ready(error);
            }
            match self.give(&mut *socket, &mut output, context) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(PeerError::Broken(error.to_string().into())),
            }
        })
        .await
    }

    fn driven_by(&self, context: &Context<'_>) {
        let mut task = self.task.borrow_mut();
        if !task.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            *task = Some(context.waker().clone());
        }
    }

    /// Handles what has arrived.
    fn take(
        &self,
        socket: &mut dyn Stream,
        input: &mut BytesMut,
        context: &mut Context<'_>,
    ) -> Result<(), PeerError> {
        let broken = |line: String| PeerError::Broken(line.into());
        loop {
            while let Some(frame) = take_frame(input).map_err(|error| broken(error.to_string()))? {
                self.understand(&frame)?;
            }
            let count = {
                let mut scratch = self.core.scratch();
                let mut buffer = ReadBuf::new(&mut scratch);
                match Pin::new(&mut *socket).poll_read(context, &mut buffer) {
                    Poll::Pending => return Ok(()),
                    Poll::Ready(Err(error)) => return Err(broken(error.to_string())),
                    Poll::Ready(Ok(())) => {}
                }
                input.extend_from_slice(buffer.filled());
                buffer.filled().len()
            };
            if count == 0 {
                let line = if self.owes_answers() { "the peer closed it" } else { IDLE };
                return Err(PeerError::Broken(line.into()));
            }
            self.heard();
        }
    }

    fn understand(&self, frame: &Frame) -> Result<(), PeerError> {
        let answer = Answer::of(frame).map_err(|error| PeerError::Broken(error.to_string().into()))?;
        // An `Alive` answers no request.
        if answer == Answer::Alive || self.answered(frame.request, answer) {
            return Ok(());
        }
        let line = format!("an answer to the request {}, which was not sent", frame.request);
        Err(PeerError::Broken(line.into()))
    }

    /// Writes what is queued, in as few writes as the socket takes.
    fn give(
        &self,
        socket: &mut dyn Stream,
        output: &mut BytesMut,
        context: &mut Context<'_>,
    ) -> std::io::Result<()> {
        loop {
            if output.is_empty() {
                if output.capacity() > BUFFER_BYTES_KEPT {
                    *output = BytesMut::new();
                }
                self.swap_unsent(output);
            }
            if output.is_empty() {
                return Ok(());
            }
            match Pin::new(&mut *socket).poll_write(context, output) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => output.advance(count),
                Poll::Ready(Err(error)) => return Err(error),
            }
        }
    }
}

async fn write_all(socket: &mut dyn Stream, bytes: &mut BytesMut) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let count = poll_fn(|context| Pin::new(&mut *socket).poll_write(context, bytes)).await?;
        bytes.advance(count);
    }
    Ok(())
}

async fn read_some(socket: &mut dyn Stream, input: &mut BytesMut) -> Result<(), PeerError> {
    let mut bytes = [0; 4 << 10];
    let mut buffer = ReadBuf::new(&mut bytes);
    let read = poll_fn(|context| Pin::new(&mut *socket).poll_read(context, &mut buffer)).await;
    // A node that refuses a certificate says so after the handshake.
    read.map_err(|error| {
        let error = words::of_connection(error, Hints::PEER);
        let line = error.to_string().into();
        if error.kind() == ErrorKind::InvalidData {
            PeerError::Refused(line)
        } else {
            PeerError::Unreachable(line)
        }
    })?;
    if buffer.filled().is_empty() {
        return Err(PeerError::Unreachable("it closed the connection instead of greeting".into()));
    }
    input.extend_from_slice(buffer.filled());
    Ok(())
}

/// Takes the answer to the request for an upgrade off the input.
async fn read_head(url: &str, socket: &mut dyn Stream, input: &mut BytesMut) -> Result<(), PeerError> {
    let mut reader = Reader::default();
    loop {
        let Ok((taken, event)) = reader.next(input, Asked::Upgrade) else {
            return Err(PeerError::Refused("it is no Ladoga node: what it answers is not HTTP".into()));
        };
        match event {
            Event::Head(head) if head.status == 101 => {
                input.advance(taken);
                return Ok(());
            }
            Event::Head(head) => return Err(refusal(url, &head, &input[taken..])),
            _ => input.advance(taken),
        }
        if input.is_empty() {
            read_some(socket, input).await?;
        }
    }
}

/// Why the peer refused. `body` is what has arrived of the answer's body: of a node one line, or nothing yet.
fn refusal(url: &str, head: &Head<&[u8]>, body: &[u8]) -> PeerError {
    let first_line = |bytes| String::from_utf8_lossy(bytes).lines().next().unwrap_or_default().to_owned();
    let status_line = first_line(head.bytes);
    let is_of_a_node =
        REFUSED_WITH.contains(&head.status) && head.header("content-type") == Some(REASON_TYPE);
    let line = match first_line(body) {
        // A page, or anything else that a server of another kind has for everybody.
        _ if !is_of_a_node => {
            format!("it is no Ladoga node: it answered {}", Quote::of(status_line.as_bytes()))
        }
        line if line.is_empty() => status_line,
        line => line,
    };
    match PeerError::refused_by(url, &line) {
        // A node that starts or stops is as good as one that is not there, and so is one behind a proxy.
        PeerError::Refused(line) if head.status == 503 => PeerError::Unreachable(line),
        error => error,
    }
}

async fn read_hello(url: &str, socket: &mut dyn Stream, input: &mut BytesMut) -> Result<Hello, PeerError> {
    loop {
        let frame = take_frame(input).map_err(|error| PeerError::Refused(error.to_string().into()))?;
        let Some(frame) = frame else {
            read_some(socket, input).await?;
            continue;
        };
        return match Answer::of(&frame) {
            Ok(Answer::Hello(hello)) => Ok(*hello),
            Ok(Answer::Stranger(line)) => Err(PeerError::refused_by(url, &line)),
            Ok(_) => Err(PeerError::Refused("it does not greet".into())),
            Err(error) => Err(PeerError::Refused(error.to_string().into())),
        };
    }
}
