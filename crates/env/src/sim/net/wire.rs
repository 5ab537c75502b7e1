use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::time::Instant;

use crate::net::KeepAlive;

/// Bytes that one end may have written and the other not read.
const WINDOW_BYTES: usize = 256 << 10;

/// A connection: two ends, and the packets in flight from each.
pub(super) struct Wire {
    pub(super) ends: [End; 2],
    /// From the end of the same number to the other one.
    pipes: [Pipe; 2],
}

pub(super) struct End {
    pub(super) address: SocketAddr,
    /// Whether a process holds it.
    pub(super) is_open: bool,
    pub(super) keep_alive: Option<KeepAlive>,
    /// Since when the other end cannot be heard.
    unheard_since: Option<Instant>,
    /// Why every read and write fails.
    fault: Option<io::ErrorKind>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

impl End {
    /// The end of who asked for the connection.
    pub(super) const DIALER: usize = 0;
    /// The end of who listened.
    pub(super) const ACCEPTOR: usize = 1;
}

#[derive(Default)]
struct Pipe {
    /// Each with when it arrives; `None` if something holds it back.
    packets: VecDeque<(Option<Instant>, Packet)>,
    bytes: usize,
    /// When the last one arrives.
    last: Option<Instant>,
    /// Whether the writing side is closed.
    is_shut: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Packet {
    Bytes(VecDeque<u8>),
    /// The end of the stream.
    Fin,
    /// A reset: there is no such connection.
    Reset,
}

/// What an end finds that wants to read.
pub(super) enum Found {
    Done(io::Result<()>),
    /// Nothing before this time, if it is known.
    NothingBefore(Option<Instant>),
}

impl Wire {
    pub(super) fn new(addresses: [SocketAddr; 2], now: Instant) -> Wire {
        let end = |address| End {
            address,
            is_open: true,
            keep_alive: None,
            unheard_since: None,
            fault: None,
            reader: None,
            writer: None,
        };
        let pipe = || Pipe { last: Some(now), ..Pipe::default() };
        Wire { ends: addresses.map(end), pipes: [pipe(), pipe()] }
    }

    /// The host of an end, and the other one.
    pub(super) fn hosts(&self, end: usize) -> [IpAddr; 2] {
        [self.ends[end].address.ip(), self.ends[1 - end].address.ip()]
    }

    /// A packet is on its way from an end; it arrives at this time, or is held back.
    pub(super) fn push(&mut self, end: usize, packet: Packet, at: Option<Instant>) {
        let pipe = &mut self.pipes[end];
        // A reset is of no connection, and so waits for nothing.
        let is_behind = packet != Packet::Reset;
        let is_held = is_behind && pipe.packets.back().is_some_and(|(at, _)| at.is_none());
        let at =
            at.filter(|_| !is_held).map(|at| if is_behind { at.max(pipe.last.unwrap_or(at)) } else { at });
        pipe.last = pipe.last.max(at);
        if let Packet::Bytes(bytes) = &packet {
            pipe.bytes += bytes.len();
        }
        if is_behind {
            pipe.packets.push_back((at, packet));
        } else {
            pipe.packets.clear();
            pipe.packets.push_back((at, packet));
        }
        wake(&mut self.ends[1 - end].reader);
    }

    pub(super) fn is_reset_under_way(&self, end: usize) -> bool {
        self.pipes[end].packets.iter().any(|(_, packet)| *packet == Packet::Reset)
    }

    pub(super) fn has_under_way(&self, end: usize) -> bool {
        !self.pipes[end].packets.is_empty()
    }

    /// What was held back from an end arrives at this time.
    pub(super) fn release(&mut self, end: usize, at: Instant) {
        for (held, _) in &mut self.pipes[end].packets {
            held.get_or_insert(at);
        }
        self.pipes[end].last = self.pipes[end].last.max(Some(at));
        wake(&mut self.ends[1 - end].reader);
    }

    /// From now on the ends do not hear each other.
    pub(super) fn goes_silent(&mut self, now: Instant) {
        for end in &mut self.ends {
            end.unheard_since.get_or_insert(now);
            wake(&mut end.reader);
        }
    }

    pub(super) fn hear_again(&mut self) {
        for end in &mut self.ends {
            end.unheard_since = None;
        }
    }

    /// The host of an end has no power any more. What it sent and is under way arrives.
    pub(super) fn vanish(&mut self, end: usize) {
        self.ends[end].is_open = false;
        self.pipes[end].packets.retain(|(at, _)| at.is_some());
        self.ends[end].reader = None;
        self.ends[end].writer = None;
    }

    /// Reads what has arrived at an end.
    pub(super) fn read(&mut self, end: usize, now: Instant, buffer: &mut ReadBuf<'_>) -> Found {
        if let Err(error) = self.check(end, now) {
            return Found::Done(Err(error));
        }
        let deadline = self.deadline(end);
        let pipe = &mut self.pipes[1 - end];
        let Some((at, packet)) = pipe.packets.front_mut() else { return Found::NothingBefore(deadline) };
        match at {
            Some(at) if *at <= now => {}
            at => return Found::NothingBefore([*at, deadline].into_iter().flatten().min()),
        }
        match packet {
            // It stays: every read after it finds the end, too.
            Packet::Fin => {}
            Packet::Reset => {
                self.ends[end].fault = Some(io::ErrorKind::ConnectionReset);
                wake(&mut self.ends[end].writer);
                return Found::Done(Err(io::ErrorKind::ConnectionReset.into()));
            }
            Packet::Bytes(bytes) => {
                let count = bytes.as_slices().0.len().min(buffer.remaining());
                buffer.put_slice(&bytes.as_slices().0[..count]);
                bytes.drain(..count);
                if bytes.is_empty() {
                    pipe.packets.pop_front();
                }
                pipe.bytes -= count;
                wake(&mut self.ends[1 - end].writer);
            }
        }
        Found::Done(Ok(()))
    }

    /// How many of `wanted` bytes an end may write.
    pub(super) fn room(&self, end: usize, now: Instant, wanted: usize) -> Poll<io::Result<usize>> {
        if let Err(error) = self.check(end, now) {
            return Poll::Ready(Err(error));
        }
        if self.pipes[end].is_shut {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        match WINDOW_BYTES.saturating_sub(self.pipes[end].bytes) {
            0 if wanted > 0 => Poll::Pending,
            room => Poll::Ready(Ok(room.min(wanted))),
        }
    }

    /// Nothing more is written by an end. Answers whether that is new.
    pub(super) fn shut(&mut self, end: usize) -> bool {
        !std::mem::replace(&mut self.pipes[end].is_shut, true)
    }

    /// Whether there is something that an end has not read.
    pub(super) fn has_unread(&self, end: usize) -> bool {
        self.pipes[1 - end].packets.iter().any(|(_, packet)| matches!(packet, Packet::Bytes(_)))
    }

    fn check(&self, end: usize, now: Instant) -> io::Result<()> {
        let own = &self.ends[end];
        if !own.is_open {
            return Err(io::ErrorKind::NetworkDown.into());
        }
        match own.fault {
            Some(fault) => Err(fault.into()),
            None if self.deadline(end).is_some_and(|deadline| deadline <= now) => {
                Err(io::ErrorKind::TimedOut.into())
            }
            None => Ok(()),
        }
    }

    /// When the end gives up an end that it does not hear.
    fn deadline(&self, end: usize) -> Option<Instant> {
        let (since, keep_alive) = (self.ends[end].unheard_since?, self.ends[end].keep_alive?);
        // An idle connection is probed first, before an answer can be missing.
        let asks_after = if self.has_under_way(end) { Duration::ZERO } else { keep_alive.asks_after };
        Some(since + asks_after + keep_alive.unheard_max)
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
