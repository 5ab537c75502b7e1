use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::Plan;
use super::alarm_clock::{ALARM_CLOCK, AlarmClock};
use super::connection::{Connection, Phase, Written};
use super::pacer::Pacer;
use super::source::Source;
use super::timers::{Alarm, Timers};
use crate::clock::Clock;
use crate::error::{LabError, Outcome};
use crate::http::Batch;
use crate::schedule::{Lane, Schedule, connections_of};
use crate::stats::{Class, Recorder, ThreadOutcome, thread_cpu_ns};

const EVENTS_MAX: usize = 256;
/// One read takes at most so much, so that one connection cannot hold up the others.
const RECEIVE_BYTES: usize = 64 * 1024;
/// How often connections are looked over for answers that take too long; less often than a tenth of the timeout.
const SWEEP_NS_MAX: u64 = 100_000_000;
pub(super) const SWEEP_NS_MIN: u64 = 1_000_000;
/// Nobody waits longer than this for the connections to be made before the run begins; the rest come later.
const CONNECT_NS_MAX: u64 = 1_000_000_000;

/// The event loop of one thread. Its calls, in their order: `connect (run)`.
pub(super) struct Worker {
    pub(super) plan: Plan,
    pub(super) address: SocketAddr,
    source: Source,
    /// None in a closed loop.
    lane: Option<Lane>,
    pub(super) poller: OwnedFd,
    alarm_clock: AlarmClock,
    pub(super) connections: Vec<Connection>,
    pub(super) recorder: Recorder,
    pub(super) timers: Timers,
    pacer: Pacer,
    clock: Clock,
    /// When the run began; times are counted from there.
    start_ns: u64,
    sweep_at_ns: u64,
    sweep_ns: u64,
    buffer: Box<[u8]>,
    scratch: Vec<u8>,
    stop: Arc<AtomicBool>,
}

/// The moment at which nothing is due any more.
const NEVER: u64 = u64::MAX;

impl Worker {
    pub(super) fn new(
        plan: Plan,
        thread: usize,
        (address, source): (SocketAddr, Source),
        recorder: Recorder,
        (clock, stop): (Clock, Arc<AtomicBool>),
    ) -> Outcome<Self> {
        // The kernel may delay a sleep by 50 µs to save power, which a schedule cannot afford. Where the wish is
        // refused, the lateness tells.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|error| LabError::system("create an event queue")(error.into()))?;
        let alarm_clock =
            AlarmClock::new(&poller).map_err(|error| LabError::system("create a timer")(error.into()))?;
        let own = connections_of(thread, plan.threads, plan.connections);
        let schedule = plan.rate.map(|rate| Schedule::new(rate, plan.connections));
        let gap_ns = plan.rate.map_or(0.0, |rate| 1e9 * plan.threads as f64 / rate);
        let sweep_ns = (plan.timeout_ns / 10).clamp(SWEEP_NS_MIN, SWEEP_NS_MAX);
        Ok(Self {
            plan,
            address,
            lane: schedule.map(|schedule| Lane::new(schedule, thread, plan.threads, own)),
            poller,
            alarm_clock,
            connections: (0..own).map(|_| Connection::new(source.wants_answers)).collect(),
            source,
            recorder,
            timers: Timers::default(),
            pacer: Pacer::new(gap_ns as u64),
            clock,
            start_ns: 0,
            sweep_at_ns: sweep_ns,
            sweep_ns,
            buffer: vec![0; RECEIVE_BYTES].into(),
            scratch: Vec::new(),
            stop,
        })
    }

    fn now(&self) -> u64 {
        self.clock.now_ns().saturating_sub(self.start_ns)
    }

    /// Makes all connections, as far as that is possible in a bounded time. Nothing is sent yet.
    pub(super) fn connect(&mut self) {
        let begin = self.now();
        for index in 0..self.connections.len() {
            self.open(index, begin);
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let end = begin + CONNECT_NS_MAX.min(self.plan.timeout_ns);
        while self.connections.iter().any(|connection| connection.phase == Phase::Connecting) {
            let now = self.now();
            if now >= end || self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.poll(&mut events, end - now);
            for event in &events {
                // The alarm clock is not set yet.
                let (index, now) = (event.data.u64() as usize, self.now());
                if self.connections[index].phase == Phase::Connecting {
                    self.end_connect(index, now);
                }
            }
        }
    }

    /// The run itself, from `start_ns` on the clock to its end.
    pub(super) fn run(mut self, start_ns: u64) -> Outcome<Box<ThreadOutcome>> {
        self.start_ns = start_ns;
        self.timers.clear();
        let cpu_begin = thread_cpu_ns();
        for index in 0..self.connections.len() {
            match self.connections[index].phase {
                Phase::Closed => self.timers.set(0, index, self.connections[index].life, Alarm::Connect),
                Phase::Connecting => self.connections[index].sent_ns = 0,
                Phase::Open => {
                    self.connections[index].free_since_ns = 0;
                    self.offer(index, 0)?;
                }
            }
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = self.step()?;
            if now >= self.plan.duration_ns || self.should_stop() {
                break;
            }
            self.sleep(&mut events, now);
            for event in &events {
                self.serve(event)?;
                self.release_due()?;
            }
        }
        let elapsed = self.now();
        let unanswered = self.unanswered(elapsed.min(self.plan.duration_ns));
        Ok(self.recorder.finish(elapsed, thread_cpu_ns() - cpu_begin, unanswered))
    }

    /// What time alone makes due; returns the time.
    fn step(&mut self) -> Outcome<u64> {
        let now = self.release_due()?;
        while let Some((index, life, alarm)) = self.timers.take_due(now) {
            self.ring(index, life, alarm, now)?;
        }
        if now >= self.sweep_at_ns {
            self.sweep(now);
            self.sweep_at_ns = now + self.sweep_ns;
        }
        if now >= self.recorder.next_tick_ns() {
            self.recorder.tick(now);
        }
        Ok(now)
    }

    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.source.requests.as_ref().is_some_and(|requests| requests.should_stop())
    }

    /// Sends what has become due on connections that are free; returns the time.
    fn release_due(&mut self) -> Outcome<u64> {
        let mut now = self.now();
        while let Some(lane) = &mut self.lane
            && lane.next_due_ns() <= now
            && now < self.plan.duration_ns
            && !self.stop.load(Ordering::Relaxed)
        {
            let index = lane.advance();
            self.offer(index, now)?;
            now = self.now();
        }
        Ok(now)
    }

    /// Sends the next request of a connection where it is free and the request is due.
    pub(super) fn offer(&mut self, index: usize, now: u64) -> Outcome<()> {
        let connection = &mut self.connections[index];
        if !connection.is_free() || now >= self.plan.duration_ns {
            return Ok(());
        }
        let due = self.lane.as_ref().map_or(now, |lane| lane.due_ns(index, connection.turn));
        if due > now {
            return Ok(());
        }
        if self.source.has_delay && !connection.has_delayed {
            return self.delay(index, now);
        }
        self.send(index, due, now)
    }

    fn delay(&mut self, index: usize, now: u64) -> Outcome<()> {
        let Some(requests) = &mut self.source.requests else { return Ok(()) };
        let delay_ms = self.recorder.lend_to(self.source.is_scripted, || requests.delay_ms())?;
        let at_ns = now.saturating_add(delay_ms.saturating_mul(1_000_000));
        let connection = &mut self.connections[index];
        connection.is_delaying = true;
        self.timers.set(at_ns, index, connection.life, Alarm::EndDelay);
        Ok(())
    }

    fn send(&mut self, index: usize, due: u64, now: u64) -> Outcome<()> {
        let (sent, now) = match (&self.source.fixed, &mut self.source.requests) {
            (Some(fixed), _) => {
                let connection = &mut self.connections[index];
                connection.begin_batch(fixed.batch.clone(), due, now);
                (connection.send(&fixed.bytes), now)
            }
            (None, Some(requests)) => {
                self.scratch.clear();
                let next = || requests.next(index, &mut self.scratch);
                let Some(batch) = self.recorder.lend_to(self.source.is_scripted, next)? else {
                    self.connections[index].has_ended = true;
                    return Ok(());
                };
                let now = self.clock.now_ns().saturating_sub(self.start_ns);
                let connection = &mut self.connections[index];
                connection.begin_batch(batch, due, now);
                (connection.send(&self.scratch), now)
            }
            (None, None) => unreachable!("a source has requests or a fixed one"),
        };
        if self.lane.is_some() {
            let could_since = due.max(self.connections[index].free_since_ns);
            self.recorder.lateness(now.saturating_sub(could_since));
        }
        match sent {
            Ok(Written::All) => {}
            Ok(Written::Part) => self.watch(index, epoll::EventFlags::IN | epoll::EventFlags::OUT),
            Err(_) => self.write_failed(index, now),
        }
        Ok(())
    }

    fn write_failed(&mut self, index: usize, now: u64) {
        self.recorder.errors().write += 1;
        self.give_up(index, Class::Broken, now);
    }

    /// Sleeps until a socket has something to say or something becomes due.
    fn sleep(&mut self, events: &mut Vec<epoll::Event>, now: u64) {
        // A request whose connection is busy is sent when its answer comes.
        let can_send = |index: usize| self.connections[index].is_free();
        let due = self.lane.as_ref().and_then(|lane| lane.next_due_where(can_send)).unwrap_or(NEVER);
        let alarm = self.timers.next_ns().unwrap_or(NEVER);
        let wake = due.min(alarm).min(self.recorder.next_tick_ns()).min(self.sweep_at_ns);
        let wake = wake.min(self.plan.duration_ns);
        let asked = self.pacer.sleep_ns(wake.saturating_sub(now));
        let is_precise = asked > 0 && wake == due.min(alarm);
        if is_precise {
            self.alarm_clock.set(asked);
        }
        self.poll(events, asked);
        let before = events.len();
        events.retain(|event| event.data.u64() != ALARM_CLOCK);
        if is_precise && events.is_empty() && before == 1 {
            let slept = self.now() - now;
            self.pacer.woke_up(asked, slept);
        }
    }

    fn poll(&self, events: &mut Vec<epoll::Event>, timeout_ns: u64) {
        events.clear();
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        match epoll::wait(&self.poller, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => unreachable!("waiting on an event queue of our own: {error}"),
        }
    }

    fn serve(&mut self, event: &epoll::Event) -> Outcome<()> {
        let (index, flags) = (event.data.u64() as usize, event.flags);
        match self.connections[index].phase {
            Phase::Closed => return Ok(()), // An event from before it was closed.
            Phase::Connecting => {
                let now = self.now();
                self.end_connect(index, now);
                return self.offer(index, now);
            }
            Phase::Open => {}
        }
        if flags.contains(epoll::EventFlags::OUT) {
            self.flush(index);
        }
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return self.receive(index);
        }
        Ok(())
    }

    fn flush(&mut self, index: usize) {
        match self.connections[index].flush() {
            Ok(Written::Part) => {}
            Ok(Written::All) => self.watch(index, epoll::EventFlags::IN),
            Err(_) => self.write_failed(index, self.now()),
        }
    }

    fn receive(&mut self, index: usize) -> Outcome<()> {
        let received = self.connections[index].receive(&mut self.buffer);
        let now = self.now();
        match received {
            Ok(None) => Ok(()),
            Ok(Some(0)) => self.peer_closed(index, now),
            Ok(Some(length)) => {
                self.recorder.add_bytes(length);
                self.take_answers(index, length, now)
            }
            Err(_) => {
                self.read_failed(index, now);
                Ok(())
            }
        }
    }

    fn read_failed(&mut self, index: usize, now: u64) {
        self.recorder.errors().read += 1;
        self.give_up(index, Class::Broken, now);
    }

    fn peer_closed(&mut self, index: usize, now: u64) -> Outcome<()> {
        if let Some(answer) = self.connections[index].parser.end_of_input() {
            self.answered(index, answer.status, now)?;
        }
        if self.connections[index].pending() > 0 {
            self.read_failed(index, now);
        } else {
            self.give_up(index, Class::Broken, now); // An idle connection may be closed; nothing is lost with it.
        }
        Ok(())
    }

    fn take_answers(&mut self, index: usize, length: usize, now: u64) -> Outcome<()> {
        let mut at = 0;
        while at < length {
            let connection = &mut self.connections[index];
            if connection.pending() == 0 {
                self.read_failed(index, now); // Bytes that nobody asked for.
                return Ok(());
            }
            let is_head = connection.awaits_head();
            let Ok((taken, answer)) = connection.parser.advance(&self.buffer[at..length], is_head) else {
                self.read_failed(index, now);
                return Ok(());
            };
            at += taken;
            let Some(answer) = answer else { continue };
            self.answered(index, answer.status, now)?;
            if !answer.keep_alive {
                self.give_up(index, Class::Broken, now);
                return Ok(());
            }
        }
        self.offer(index, now)
    }

    fn answered(&mut self, index: usize, status: u16, now: u64) -> Outcome<()> {
        let connection = &mut self.connections[index];
        connection.end_request(now);
        self.recorder.answered(status);
        if connection.pending() == 0 || !self.plan.is_batch_latency {
            let (corrected, uncorrected) = (now - connection.due_ns, now - connection.sent_ns);
            let kind = (Class::of_status(status), connection.method());
            let due_ns = connection.due_ns;
            self.recorder.latency(kind, due_ns, (corrected, uncorrected));
        }
        if self.source.wants_answers
            && let (Some(requests), Some(answer)) = (&mut self.source.requests, connection.parser.captured())
        {
            return self.recorder.lend_to(self.source.is_scripted, || requests.answered(status, answer));
        }
        Ok(())
    }

    /// Requests that were due by the end and have no answer. A closed loop owes nothing.
    fn unanswered(&self, end_ns: u64) -> u64 {
        let Some(lane) = &self.lane else { return 0 };
        let of_connection = |(index, connection): (usize, &Connection)| {
            let due = if connection.has_ended { 0 } else { lane.due_before(index, end_ns) };
            due.saturating_sub(connection.turn) + u64::from(connection.pending())
        };
        self.connections.iter().enumerate().map(of_connection).sum()
    }
}

/// A batch is small: it is copied for every request.
const _: () = assert!(size_of::<Batch>() <= 32);
