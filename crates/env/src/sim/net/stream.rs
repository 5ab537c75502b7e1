use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::state::NetState;
use super::wire::{Found, Packet};
use crate::net::{KeepAlive, Stream};

/// One end of a simulated connection. Dropping it closes it.
pub(super) struct SimStream {
    state: Arc<Mutex<NetState>>,
    wire: u64,
    end: usize,
    peer_address: SocketAddr,
    /// Wakes the reader when something arrives.
    timer: Option<Pin<Box<Sleep>>>,
}

impl SimStream {
    pub(super) fn new(state: &Arc<Mutex<NetState>>, wire: u64, end: usize) -> SimStream {
        let peer_address = state.lock().wires[&wire].ends[1 - end].address;
        SimStream { state: Arc::clone(state), wire, end, peer_address, timer: None }
    }

    /// Wakes the reader at this time.
    fn wake_at(&mut self, at: Instant, context: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        timer.as_mut().poll(context)
    }
}

impl Stream for SimStream {
    fn peer_address(&self) -> io::Result<SocketAddr> {
        Ok(self.peer_address)
    }

    fn keep_alive(&self, keep_alive: &KeepAlive) -> io::Result<()> {
        if let Some(wire) = self.state.lock().wires.get_mut(&self.wire) {
            wire.ends[self.end].keep_alive = Some(*keep_alive);
        }
        Ok(())
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let own = self.get_mut();
        loop {
            let next = {
                let mut state = own.state.lock();
                let Some(wire) = state.wires.get_mut(&own.wire).filter(|wire| wire.ends[own.end].is_open)
                else {
                    return Poll::Ready(Err(io::ErrorKind::NetworkDown.into()));
                };
                match wire.read(own.end, Instant::now(), buffer) {
                    Found::Done(done) => return Poll::Ready(done),
                    Found::NothingBefore(at) => {
                        wire.ends[own.end].reader = Some(context.waker().clone());
                        at
                    }
                }
            };
            match next {
                Some(at) if own.wake_at(at, context).is_ready() => {}
                _ => return Poll::Pending,
            }
        }
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.state.lock();
        let Some(wire) = state.wires.get_mut(&self.wire).filter(|wire| wire.ends[self.end].is_open) else {
            return Poll::Ready(Err(io::ErrorKind::NetworkDown.into()));
        };
        let count = match wire.room(self.end, Instant::now(), bytes.len()) {
            Poll::Ready(room) => room?,
            Poll::Pending => {
                wire.ends[self.end].writer = Some(context.waker().clone());
                return Poll::Pending;
            }
        };
        let is_heard = wire.ends[1 - self.end].is_open;
        state.send(self.wire, self.end, Packet::Bytes(bytes[..count].iter().copied().collect()));
        if !is_heard {
            state.answer_with_reset(self.wire, self.end);
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.state.lock();
        if state
            .wires
            .get_mut(&self.wire)
            .is_some_and(|wire| wire.ends[self.end].is_open && wire.shut(self.end))
        {
            state.send(self.wire, self.end, Packet::Fin);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        let resets = state.wires.get(&self.wire).is_some_and(|wire| wire.has_unread(self.end));
        state.close(self.wire, self.end, resets);
    }
}
