use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::alarm_clock::{ALARM_CLOCK, AlarmClock};
use super::connection::{Connection, Phase};
use super::pacer::Pacer;
use super::source::Source;
use super::timers::{Alarm, Timers};
use super::{Ending, Plan};
use crate::clock::Clock;
use crate::error::{LabError, Outcome};
use crate::http::{Batch, Method};
use crate::schedule::{Lane, Schedule, connections_of};
use crate::stats::{Class, Recorder, ThreadOutcome, Unanswered, thread_cpu_ns};
use ladoga_tls::client::TlsClient;

const EVENTS_MAX: usize = 256;
/// The most that one read takes, so that one connection cannot hold up the others.
const RECEIVE_BYTES: usize = 64 * 1024;
/// How often connections are checked for answers that take too long; less often than a tenth of the timeout.
const SWEEP_NS_MAX: u64 = 100_000_000;
pub(super) const SWEEP_NS_MIN: u64 = 1_000_000;
/// The run begins after this even if not all connections are made; the rest come later.
pub(super) const CONNECT_NS_MAX: u64 = 1_000_000_000;

/// The event loop of one thread. Its calls, in their order: `connect (run)`.
pub(super) struct Worker {
    pub(super) plan: Plan,
    pub(super) address: SocketAddr,
    /// None for plain HTTP.
    pub(super) tls: Option<TlsClient>,
    pub(super) source: Source,
    /// None in a closed loop.
    pub(super) lane: Option<Lane>,
    pub(super) poller: OwnedFd,
    alarm_clock: AlarmClock,
    pub(super) connections: Vec<Connection>,
    /// Connections without further requests.
    pub(super) ended: usize,
    pub(super) recorder: Recorder,
    pub(super) timers: Timers,
    pacer: Pacer,
    clock: Clock,
    /// When the run began; times are counted from there.
    start_ns: u64,
    sweep_at_ns: u64,
    sweep_ns: u64,
    pub(super) buffer: Box<[u8]>,
    pub(super) scratch: Vec<u8>,
    pub(super) stop: Arc<AtomicBool>,
}

/// The moment at which nothing is due any more.
const NEVER: u64 = u64::MAX;

impl Worker {
    pub(super) fn new(
        plan: Plan,
        thread: usize,
        (address, tls, source): (SocketAddr, Option<TlsClient>, Source),
        recorder: Recorder,
        (clock, stop): (Clock, Arc<AtomicBool>),
    ) -> Outcome<Self> {
        // The kernel may delay a sleep by 50 µs to save power, which a schedule cannot afford. If the system refuses, the
        // lateness that the report gives shows it.
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
            tls,
            lane: schedule.map(|schedule| Lane::new(schedule, thread, plan.threads, own)),
            poller,
            alarm_clock,
            ended: 0,
            connections: (0..own).map(|_| Connection::new(plan.pipeline, source.wants_answers)).collect(),
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

    pub(super) fn now(&self) -> u64 {
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
        while self.connections.iter().any(Connection::is_connecting) {
            let now = self.now();
            if now >= end || self.stop.load(Ordering::Relaxed) {
                break;
            }
            self.poll(&mut events, end - now);
            for event in &events {
                // The alarm clock is not set yet.
                let (index, now) = (event.data.u64() as usize, self.now());
                if self.connections[index].is_connecting() {
                    self.go_on_connecting(index, now);
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
                Phase::Connecting | Phase::ShakingHands => self.connections[index].connecting_since_ns = 0,
                Phase::Open => {
                    self.connections[index].free_since_ns = 0;
                    self.offer(index, self.now())?; // Those before it took a while.
                }
            }
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let now = self.step()?;
            if self.is_over(now) || self.should_stop() {
                break;
            }
            self.sleep(&mut events, now);
            for event in &events {
                self.serve(event)?;
                self.release_due()?;
            }
        }
        let elapsed = self.now();
        let end_ns = elapsed.min(self.plan.duration_ns);
        let unanswered = if self.lane.is_some() { self.unsent(end_ns) + self.pending() } else { 0 };
        let left = match self.plan.ending {
            Ending::Cut => self.left(end_ns),
            Ending::Drain => {
                self.record_unsent(end_ns, elapsed);
                Unanswered::new()
            }
        };
        let mut outcome = self.recorder.finish(elapsed, thread_cpu_ns() - cpu_begin, unanswered);
        outcome.left = left;
        Ok(outcome)
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

    pub(super) fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
            || self.source.requests.as_ref().is_some_and(|requests| requests.should_stop())
    }

    /// Sleeps until a socket has something to say or something becomes due.
    fn sleep(&mut self, events: &mut Vec<epoll::Event>, now: u64) {
        // A request whose connection is busy is sent when its answer comes.
        let can_send = |index: usize| self.connections[index].has_room();
        let next = self.lane.as_ref().and_then(|lane| lane.next_due_where(can_send));
        let due = next.filter(|due| *due < self.plan.duration_ns).unwrap_or(NEVER);
        let alarm = self.timers.next_ns().unwrap_or(NEVER);
        let wake = due.min(alarm).min(self.recorder.next_tick_ns()).min(self.sweep_at_ns);
        let ends = [self.plan.duration_ns, self.plan.last_send_ns()];
        let end = ends.into_iter().find(|end| *end > now).unwrap_or(NEVER);
        let wake = wake.min(end);
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

    /// Whether nothing more is to be sent or waited for.
    fn is_over(&self, now: u64) -> bool {
        let may_be_over = now >= self.plan.duration_ns || self.ended == self.connections.len();
        match self.plan.ending {
            Ending::Cut => now >= self.plan.duration_ns,
            Ending::Drain if may_be_over && self.pending() == 0 => {
                now >= self.plan.last_send_ns() || self.unsent(self.plan.duration_ns) == 0
            }
            Ending::Drain => false,
        }
    }

    /// Requests that were sent and not answered.
    fn pending(&self) -> u64 {
        self.connections.iter().map(|connection| u64::from(connection.pending())).sum()
    }

    /// Requests that are due before `end_ns` and were not sent. A closed loop owes nothing.
    fn unsent(&self, end_ns: u64) -> u64 {
        (0..self.connections.len()).map(|index| self.owed(index, end_ns).count() as u64).sum()
    }

    /// The turns of a connection that are due before `end_ns` and were not taken.
    pub(super) fn owed(&self, index: usize, end_ns: u64) -> Range<u64> {
        let connection = &self.connections[index];
        let due = match &self.lane {
            Some(lane) if !connection.has_ended => lane.due_before(index, end_ns),
            _ => 0,
        };
        connection.turn..due.max(connection.turn)
    }

    /// Requests that were due and never sent belong to the tail as much as those that were.
    fn record_unsent(&mut self, end_ns: u64, now: u64) {
        for index in 0..self.connections.len() {
            for turn in self.owed(index, end_ns) {
                let Some(lane) = &self.lane else { return };
                let due_ns = lane.due_ns(index, turn);
                let waited_ns = now.saturating_sub(due_ns);
                self.recorder.failed((Class::Unsent, Method::Other), due_ns, (waited_ns, waited_ns));
            }
        }
    }
}

/// A batch is small: it is copied for every request.
const _: () = assert!(size_of::<Batch>() <= 32);
