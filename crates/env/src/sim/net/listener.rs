use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;
use tokio::time::{Instant, Sleep, sleep_until};

use super::state::NetState;
use super::stream::SimStream;
use super::wire::End;
use crate::net::{Listener, Stream};

/// Where simulated connections arrive.
pub(super) struct SimListener {
    state: Arc<Mutex<NetState>>,
    address: SocketAddr,
    timer: Option<Pin<Box<Sleep>>>,
}

impl SimListener {
    pub(super) fn new(state: Arc<Mutex<NetState>>, address: SocketAddr) -> SimListener {
        SimListener { state, address, timer: None }
    }
}

impl Listener for SimListener {
    fn address(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Box<dyn Stream>>> {
        loop {
            let arrives = {
                let mut state = self.state.lock();
                // On a host without power, nothing arrives.
                let Some(backlog) = state.backlog(self.address) else { return Poll::Pending };
                backlog.acceptor = Some(context.waker().clone());
                match backlog.arriving.iter().enumerate().min_by_key(|(_, (at, _))| *at) {
                    None => return Poll::Pending,
                    Some((index, (at, _))) if *at <= Instant::now() => Ok(index),
                    Some((_, (at, _))) => Err(*at),
                }
            };
            match arrives {
                Ok(index) => {
                    let taken =
                        self.state.lock().backlog(self.address).and_then(|b| b.arriving.remove(index));
                    let Some((_, wire)) = taken else { return Poll::Pending };
                    return Poll::Ready(Ok(Box::new(SimStream::new(&self.state, wire, End::ACCEPTOR))));
                }
                Err(at) => {
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
                    timer.as_mut().reset(at);
                    if timer.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        self.state.lock().unlisten(self.address);
    }
}
