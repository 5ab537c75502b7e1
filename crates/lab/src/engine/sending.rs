//! How a worker sends requests.

use std::sync::atomic::Ordering;

use super::timers::Alarm;
use super::worker::Worker;
use crate::error::Outcome;
use crate::http::Batch;
use crate::stats::Class;

impl Worker {
    /// Sends the requests that are due on connections that have room for them; returns the time.
    ///
    /// Each connection has its turn once at most. At a rate that cannot be kept there are always turns that are due, and the answers
    /// would never be read: so the rest of them are passed over. Nothing is lost with that: a connection that had its turn owes
    /// requests only if it has no room, and sends the next one when an answer comes, with its own due time.
    pub(super) fn release_due(&mut self) -> Outcome<u64> {
        let mut now = self.now();
        let (begun_ns, mut turns) = (now, self.connections.len());
        while let Some(lane) = &mut self.lane
            && lane.next_due_ns() <= now
            && lane.next_due_ns() < self.plan.duration_ns
            && now < self.plan.last_send_ns()
            && !self.stop.load(Ordering::Relaxed)
        {
            if turns == 0 {
                lane.pass_over(begun_ns);
                break;
            }
            turns -= 1;
            let index = lane.advance();
            if self.connections[index].has_room() {
                self.offer(index, now)?;
                now = self.now();
            }
        }
        Ok(now)
    }

    /// Sends the requests that are due on a connection, as far as it has room. Requests that go out at once share a write.
    pub(super) fn offer(&mut self, index: usize, mut now: u64) -> Outcome<()> {
        self.scratch.clear();
        let mut begun = 0;
        while let Some(mut due_ns) = self.due_on(index, now) {
            if self.source.has_delay && !self.connections[index].has_delayed {
                self.delay(index)?;
                break;
            }
            let Some(batch) = self.next_batch(index)? else {
                self.connections[index].has_ended = true;
                self.ended += 1;
                break;
            };
            if self.source.fixed.is_none() {
                now = self.now(); // Making a request takes a while.
            }
            if self.lane.is_none() {
                due_ns = now; // The server is not to blame for the time that a script takes, as in wrk.
            }
            let connection = &mut self.connections[index];
            connection.begin_batch(batch, due_ns, now);
            let could_since_ns = due_ns.max(connection.free_since_ns);
            self.recorder.sent(due_ns, now, now.saturating_sub(could_since_ns));
            begun += 1;
        }
        if begun > 0 {
            self.send(index, begun, now);
        }
        Ok(())
    }

    /// When the connection's next request was due; none if it is not due yet, or cannot be sent now.
    fn due_on(&self, index: usize, now: u64) -> Option<u64> {
        let connection = &self.connections[index];
        // What is overdue by then would still be sent.
        if !connection.has_room() || now >= self.plan.last_send_ns() || self.should_stop() {
            return None;
        }
        let due_ns = self.lane.as_ref().map_or(now, |lane| lane.due_ns(index, connection.turn));
        (due_ns <= now && due_ns < self.plan.duration_ns).then_some(due_ns)
    }

    fn delay(&mut self, index: usize) -> Outcome<()> {
        let Some(requests) = &mut self.source.requests else { return Ok(()) };
        let delay_ms = self.recorder.lend_to(self.source.is_scripted, || requests.delay_ms())?;
        let at_ns = self.now().saturating_add(delay_ms.saturating_mul(1_000_000));
        let connection = &mut self.connections[index];
        connection.is_delaying = true;
        self.timers.set(at_ns, index, connection.life, Alarm::EndDelay);
        Ok(())
    }

    /// The next requests of a connection. Bytes that are not the same every time are added to `scratch`.
    fn next_batch(&mut self, index: usize) -> Outcome<Option<Batch>> {
        match (&self.source.fixed, &mut self.source.requests) {
            (Some(fixed), _) => Ok(Some(fixed.batch.clone())),
            (None, Some(requests)) => {
                let next = || requests.next(index, &mut self.scratch);
                self.recorder.lend_to(self.source.is_scripted, next)
            }
            (None, None) => unreachable!("a source has requests or a fixed one"),
        }
    }

    /// Writes so many batches to the socket.
    fn send(&mut self, index: usize, batches: usize, now: u64) {
        let connection = &mut self.connections[index];
        let sent = match &self.source.fixed {
            Some(fixed) => (0..batches).try_for_each(|_| connection.send(&fixed.bytes)),
            None => connection.send(&self.scratch),
        };
        match sent {
            Ok(()) if connection.wants_write() => self.watch(index),
            Ok(()) => {}
            Err(_) => self.write_failed(index, now),
        }
    }

    /// The socket takes more.
    pub(super) fn flush(&mut self, index: usize) -> Outcome<()> {
        let now = self.now();
        match self.connections[index].flush() {
            Ok(()) if self.connections[index].wants_write() => {}
            Ok(()) => {
                self.watch(index);
                self.offer(index, now)?;
            }
            Err(_) => {
                // What was answered before the end is there to be read.
                let life = self.connections[index].life;
                self.receive(index)?;
                if self.connections[index].life == life {
                    self.write_failed(index, now);
                }
            }
        }
        Ok(())
    }

    fn write_failed(&mut self, index: usize, now: u64) {
        self.recorder.errors().write += 1;
        self.give_up(index, Class::Broken, now);
    }
}
