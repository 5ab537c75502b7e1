//! How a worker takes answers.

use rustix::event::epoll;

use super::connection::Phase;
use super::worker::Worker;
use crate::error::Outcome;
use crate::stats::{Class, ConnectionError};

impl Worker {
    pub(super) fn serve(&mut self, event: &epoll::Event) -> Outcome<()> {
        let (index, flags) = (event.data.u64() as usize, event.flags);
        match self.connections[index].phase {
            Phase::Closed => return Ok(()), // An event from before it was closed.
            Phase::Connecting | Phase::ShakingHands => {
                let now = self.now();
                self.go_on_connecting(index, now);
                return self.offer(index, now);
            }
            Phase::Open => {}
        }
        let life = self.connections[index].life;
        // Read first: a server may answer half a request and close. To write fails then, and that answer would be lost.
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            self.receive(index)?;
        }
        if flags.contains(epoll::EventFlags::OUT) && self.connections[index].life == life {
            self.flush(index)?;
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, index: usize) -> Outcome<()> {
        loop {
            let life = self.connections[index].life;
            let received = self.connections[index].receive(&mut self.buffer);
            let now = self.now();
            match received {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => return self.peer_closed(index, now),
                Ok(Some(length)) => {
                    self.recorder.add_bytes(length);
                    self.take_answers(index, length, now)?;
                }
                Err(why) => {
                    self.read_failed(index, why, now);
                    return Ok(());
                }
            }
            if self.connections[index].life != life || !self.connections[index].has_more() {
                return Ok(());
            }
        }
    }

    fn read_failed(&mut self, index: usize, why: ConnectionError, now: u64) {
        self.recorder.read_failed(why);
        self.give_up(index, Class::Broken, now);
    }

    fn peer_closed(&mut self, index: usize, now: u64) -> Outcome<()> {
        if let Some(answer) = self.connections[index].parser.end_of_input() {
            self.answered(index, answer.status, now)?;
        }
        if self.connections[index].is_waiting() {
            self.read_failed(index, ConnectionError::Closed, now);
        } else {
            self.give_up(index, Class::Broken, now); // An idle connection may be closed; nothing is lost with it.
        }
        Ok(())
    }

    fn take_answers(&mut self, index: usize, length: usize, now: u64) -> Outcome<()> {
        let mut at = 0;
        while at < length {
            let connection = &mut self.connections[index];
            if !connection.is_waiting() {
                if self.buffer[at..length].iter().all(|byte| b"\r\n".contains(byte)) {
                    break; // Some servers end a body with an empty line, which parsers pass over.
                }
                self.read_failed(index, ConnectionError::Unasked, now);
                return Ok(());
            }
            let is_head = connection.awaits_head();
            let (taken, answer) = match connection.parser.advance(&self.buffer[at..length], is_head) {
                Ok(advanced) => advanced,
                Err(why) => {
                    self.read_failed(index, why.into(), now);
                    return Ok(());
                }
            };
            at += taken;
            let Some(answer) = answer else { continue };
            self.answered(index, answer.status, now)?;
            if !answer.keep_alive {
                self.give_up(index, Class::Broken, now);
                return Ok(());
            }
        }
        // A script has taken its time with them.
        let now = if self.source.wants_answers { self.now() } else { now };
        self.offer(index, now)
    }

    fn answered(&mut self, index: usize, status: u16, now: u64) -> Outcome<()> {
        let Some(ended) = self.connections[index].end_request(now) else { return Ok(()) };
        self.recorder.answered(status, now);
        let kind = (Class::of_status(status), ended.method);
        if ended.is_last_of_batch || !self.plan.is_batch_latency {
            let latencies_ns = (now - ended.due_ns, now - ended.sent_ns);
            self.recorder.latency(kind, ended.due_ns, latencies_ns);
        } else {
            self.recorder.without_latency(kind, ended.due_ns);
        }
        if self.source.wants_answers
            && let (Some(requests), Some(answer)) =
                (&mut self.source.requests, self.connections[index].parser.captured())
        {
            return self.recorder.lend_to(self.source.is_scripted, || requests.answered(status, answer));
        }
        Ok(())
    }
}
