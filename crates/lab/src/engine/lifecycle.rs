//! How a worker opens its connections, gives them up, and opens them again.

use rustix::event::epoll;
use rustix::io::Errno;

use super::timers::Alarm;
use super::worker::{SWEEP_NS_MIN, Worker};
use crate::error::Outcome;
use crate::stats::{Class, ConnectionError};

impl Worker {
    /// Closes the connection, counts the requests in flight, and opens it again: at once, or later if it keeps failing.
    pub(super) fn give_up(&mut self, index: usize, class: Class, now: u64) {
        let connection = &mut self.connections[index];
        let had_answer = connection.has_answered && !connection.is_waiting();
        connection.has_failed |= connection.is_waiting();
        while let Some(ended) = connection.take_oldest() {
            let latencies_ns = (now - ended.due_ns, now - ended.sent_ns);
            self.recorder.failed((class, ended.method), ended.due_ns, latencies_ns);
        }
        connection.close();
        let retry_ns = if had_answer { 0 } else { connection.next_retry_ns() };
        if retry_ns == 0 {
            self.open(index, now);
        } else {
            self.timers.set(now + retry_ns, index, self.connections[index].life, Alarm::Connect);
        }
    }

    pub(super) fn open(&mut self, index: usize, now: u64) {
        let connected = self.connections[index].connect(self.address, now).and_then(|socket| {
            let token = epoll::EventData::new_u64(index as u64);
            epoll::add(&self.poller, socket, token, epoll::EventFlags::OUT)
        });
        if let Err(why) = connected {
            self.connect_failed(index, why.into(), now);
        }
    }

    pub(super) fn go_on_connecting(&mut self, index: usize, now: u64) {
        match self.connections[index].go_on_connecting(self.tls.as_ref(), now) {
            Ok(()) => self.watch(index),
            Err(why) => self.connect_failed(index, why, now),
        }
    }

    fn connect_failed(&mut self, index: usize, why: ConnectionError, now: u64) {
        self.recorder.connect_failed(why);
        let connection = &mut self.connections[index];
        connection.has_failed = true;
        connection.close();
        // Not at once, or this would never return if every attempt fails at once.
        let retry_ns = connection.next_retry_ns().max(SWEEP_NS_MIN);
        self.timers.set(now + retry_ns, index, connection.life, Alarm::Connect);
    }

    /// Registers the socket for what the connection waits for.
    pub(super) fn watch(&self, index: usize) {
        let connection = &self.connections[index];
        let Some(socket) = connection.socket() else { return };
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, connection.wants_write());
        let token = epoll::EventData::new_u64(index as u64);
        if let Err(error) = epoll::modify(&self.poller, socket, token, flags) {
            unreachable!("a socket that is in the event queue: {error}");
        }
    }

    /// Gives up requests that have timed out.
    pub(super) fn sweep(&mut self, now: u64) {
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let Some(since_ns) = connection.waiting_since_ns() else { continue };
            if now.saturating_sub(since_ns) < self.plan.timeout_ns {
                continue;
            }
            if connection.is_connecting() {
                self.connect_failed(index, Errno::TIMEDOUT.into(), now);
            } else {
                self.recorder.errors().timeout += 1;
                self.give_up(index, Class::TimedOut, now);
            }
        }
    }

    pub(super) fn ring(&mut self, index: usize, life: u64, alarm: Alarm, now: u64) -> Outcome<()> {
        let connection = &mut self.connections[index];
        if connection.life != life {
            return Ok(());
        }
        match alarm {
            Alarm::Connect => self.open(index, now),
            Alarm::EndDelay => {
                connection.is_delaying = false;
                connection.has_delayed = true;
                connection.free_since_ns = now;
                self.offer(index, now)?;
            }
        }
        Ok(())
    }
}
