use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::Instant;

use ladoga_http1::answer::Answer;
use rustix::event::{Timespec, epoll};

use super::connection::{Connection, OnItsWay};
use super::plan::{Pace, Plan};
use super::report::{Class, Report};
use super::schedule::Schedule;
use super::workload::Workload;
use crate::stop::{OrFail, Outcome, failed};

/// How often connections are looked over for answers that take too long; also the longest sleep.
const SWEEP_NS: u64 = 20_000_000;
/// Shorter waits are spent asking the sockets again: waking up takes about as long.
const SPIN_NS: u64 = 5_000;
const EVENTS_MAX: usize = 256;
/// What was due when the time was over and waits for its connection may still go out for so long.
const GRACE_NS: u64 = 100_000_000;

/// Runs a plan to its end on a thread of its own.
pub(crate) fn run(plan: &Plan) -> Outcome<Report> {
    let plan = plan.clone();
    let thread = std::thread::spawn(move || {
        // The kernel may delay a sleep by 50 µs to save power; a schedule cannot afford that. Where the wish is
        // refused, the lateness tells.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut driver = Driver::new(plan)?;
        driver.drive()?;
        Ok::<_, io::Error>(driver.into_report())
    });
    match thread.join() {
        Ok(report) => report.or_fail(|| "the load generator failed".to_owned()),
        Err(_) => failed("the load generator panicked"),
    }
}

struct Driver {
    plan: Plan,
    /// None in a closed loop.
    schedule: Option<Schedule>,
    poller: OwnedFd,
    connections: Vec<Connection>,
    workload: Workload,
    report: Report,
    started: Instant,
    /// How many requests have become due so far.
    released: u64,
    /// How many requests were sent so far.
    begun: u64,
    warmup_ns: u64,
    /// From when on nothing is due.
    end_ns: u64,
    ended_ns: u64,
    /// Of all connections.
    waiting: usize,
    sweep_at_ns: u64,
}

impl Driver {
    fn new(plan: Plan) -> io::Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(plan.connections);
        for index in 0..plan.connections {
            let connection = Connection::open(plan.address)?;
            let token = epoll::EventData::new_u64(index as u64);
            epoll::add(&poller, &connection.stream, token, epoll::EventFlags::IN)?;
            connections.push(connection);
        }
        let (warmup_ns, duration_ns) = (plan.warmup.as_nanos() as u64, plan.duration.as_nanos() as u64);
        let end_ns = warmup_ns + duration_ns;
        let schedule = match plan.pace {
            Pace::PerSecond(rate) => Some(Schedule::new(rate, plan.connections, end_ns)),
            Pace::Closed => None,
        };
        let (workload, report) = (Workload::new(&plan), Report::new());
        Ok(Self {
            plan,
            schedule,
            poller,
            connections,
            workload,
            report,
            started: Instant::now(),
            released: 0,
            begun: 0,
            warmup_ns,
            end_ns,
            ended_ns: 0,
            waiting: 0,
            sweep_at_ns: SWEEP_NS,
        })
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn drive(&mut self) -> io::Result<()> {
        self.started = Instant::now();
        let mut events = Vec::with_capacity(EVENTS_MAX);
        if self.schedule.is_none() {
            (0..self.connections.len()).try_for_each(|index| self.pump(index))?;
        }
        loop {
            self.release_due()?;
            let now = self.now_ns();
            if self.waiting == 0 && self.is_over(now) {
                break;
            }
            self.poll(&mut events, now)?;
            for event in &events {
                self.serve(event)?;
            }
            if self.now_ns() >= self.sweep_at_ns {
                self.sweep()?;
            }
        }
        self.ended_ns = self.now_ns();
        self.count_unsent();
        Ok(())
    }

    /// Whether nothing more is to be sent.
    fn is_over(&self, now: u64) -> bool {
        match &self.schedule {
            Some(schedule) => {
                now >= self.last_send_ns() || (now >= self.end_ns && self.begun == schedule.count())
            }
            None => now >= self.end_ns || self.plan.requests_max.is_some_and(|count| self.begun >= count),
        }
    }

    fn last_send_ns(&self) -> u64 {
        if self.schedule.is_some() { self.end_ns + GRACE_NS } else { self.end_ns }
    }

    fn release_due(&mut self) -> io::Result<()> {
        let Some(schedule) = self.schedule else { return Ok(()) };
        while self.released < schedule.count() && schedule.due_ns(self.released) <= self.now_ns() {
            let index = (self.released % self.connections.len() as u64) as usize;
            self.released += 1;
            self.pump(index)?;
        }
        Ok(())
    }

    /// Waits for events, at most until the next request is due.
    fn poll(&self, events: &mut Vec<epoll::Event>, now: u64) -> io::Result<()> {
        let due = match &self.schedule {
            Some(schedule) if self.released < schedule.count() => schedule.due_ns(self.released),
            _ if now < self.end_ns => self.end_ns,
            _ => self.sweep_at_ns,
        };
        let wait = due.saturating_sub(now).min(SWEEP_NS);
        let wait = if wait <= SPIN_NS { 0 } else { wait };
        let timeout = Timespec { tv_sec: 0, tv_nsec: wait.cast_signed() };
        events.clear();
        match epoll::wait(&self.poller, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn serve(&mut self, event: &epoll::Event) -> io::Result<()> {
        let (index, flags) = (event.data.u64() as usize, event.flags);
        if flags.intersects(epoll::EventFlags::OUT) && self.flush(index).is_err() {
            return self.reconnect(index);
        }
        if !flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR) {
            return Ok(());
        }
        if self.connections[index].receive().is_err() {
            return self.reconnect(index);
        }
        let now = self.now_ns();
        loop {
            match self.connections[index].next_answer() {
                Ok(Some(answer)) => {
                    let was_asked = self.take_answer(index, answer, now);
                    if !was_asked || !answer.keep_alive {
                        self.reconnect(index)?;
                        return self.pump(index);
                    }
                }
                Ok(None) => return self.pump(index),
                Err(_) => return self.reconnect(index),
            }
        }
    }

    /// False where nobody had asked.
    fn take_answer(&mut self, index: usize, answer: Answer, now: u64) -> bool {
        let connection = &mut self.connections[index];
        let Some(request) = connection.waiting.pop_front() else { return false };
        connection.free_since_ns = now;
        self.waiting -= 1;
        let class = Class::of(request.operation, answer.status);
        if (self.warmup_ns..self.end_ns).contains(&now) {
            match class {
                Class::Put | Class::Get => self.report.good_in_time += 1,
                Class::Busy => self.report.busy_in_time += 1,
                _ => {}
            }
        }
        if request.due_ns >= self.warmup_ns {
            self.report.record(class, now - request.due_ns, now - request.sent_ns);
        }
        true
    }

    /// Sends what the connection owes, as far as it has room.
    fn pump(&mut self, index: usize) -> io::Result<()> {
        let before = self.connections[index].waiting.len();
        while self.connections[index].waiting.len() < self.plan.pipeline {
            let now = self.now_ns();
            let Some(due_ns) = self.next_due(index, now) else { break };
            let connection = &mut self.connections[index];
            let operation = self.workload.append(&mut connection.outbox);
            connection.waiting.push_back(OnItsWay { due_ns, sent_ns: now, operation });
            connection.turn += 1;
            self.begun += 1;
            self.report.sent_in_time += u64::from((self.warmup_ns..self.end_ns).contains(&now));
            if due_ns >= self.warmup_ns {
                self.report.record_lateness(now - due_ns.max(connection.free_since_ns).min(now));
            }
        }
        let sent = self.connections[index].waiting.len() - before;
        self.waiting += sent;
        if sent > 0 && self.flush(index).is_err() {
            return self.reconnect(index);
        }
        Ok(())
    }

    /// When the connection's next request is due; `None` where it is not yet, or it is too late to send any.
    fn next_due(&self, index: usize, now: u64) -> Option<u64> {
        if now >= self.last_send_ns() {
            return None;
        }
        let Some(schedule) = &self.schedule else {
            return self.plan.requests_max.is_none_or(|count| self.begun < count).then_some(now);
        };
        let turn = self.connections[index].turn;
        let owed = schedule.released_to(index, self.released) > turn;
        owed.then(|| schedule.due_ns(schedule.index_of(index, turn)))
    }

    /// Writes what the socket takes, and asks the poller about the rest.
    fn flush(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        let wants_write = !connection.flush()?;
        if wants_write != connection.wants_write {
            connection.wants_write = wants_write;
            let token = epoll::EventData::new_u64(index as u64);
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, wants_write);
            epoll::modify(&self.poller, &connection.stream, token, flags)?;
        }
        Ok(())
    }

    /// Gives up what was on its way, and takes a new socket.
    fn reconnect(&mut self, index: usize) -> io::Result<()> {
        let now = self.now_ns();
        self.report.lost += self.abandon(index, now);
        self.connections[index].reopen(self.plan.address, now)?;
        let token = epoll::EventData::new_u64(index as u64);
        // Nothing is sent from here: `pump` comes here too, and a server that closes at once would have them recurse.
        epoll::add(&self.poller, &self.connections[index].stream, token, epoll::EventFlags::IN)?;
        Ok(())
    }

    /// Answers how many requests were given up.
    fn abandon(&mut self, index: usize, now: u64) -> u64 {
        let mut given_up = 0;
        while let Some(request) = self.connections[index].waiting.pop_front() {
            self.waiting -= 1;
            if request.due_ns >= self.warmup_ns {
                given_up += 1;
                self.report.record_unanswered(now - request.due_ns);
            }
        }
        given_up
    }

    /// Gives up connections whose oldest answer takes too long, and wakes those that were reopened.
    fn sweep(&mut self) -> io::Result<()> {
        let now = self.now_ns();
        let timeout_ns = self.plan.timeout.as_nanos() as u64;
        for index in 0..self.connections.len() {
            match self.connections[index].waiting.front() {
                Some(oldest) if now - oldest.sent_ns > timeout_ns => {
                    self.report.timeouts += self.abandon(index, now);
                    self.reconnect(index)?;
                }
                Some(_) => {}
                None => self.pump(index)?,
            }
        }
        self.sweep_at_ns = now + SWEEP_NS;
        Ok(())
    }

    /// What was due and never sent is as much a part of the tail as what was.
    fn count_unsent(&mut self) {
        let Some(schedule) = self.schedule else { return };
        for (index, connection) in self.connections.iter().enumerate() {
            for turn in connection.turn..schedule.released_to(index, schedule.count()) {
                let due_ns = schedule.due_ns(schedule.index_of(index, turn));
                if due_ns >= self.warmup_ns {
                    self.report.unsent += 1;
                    self.report.record_unanswered(self.ended_ns.saturating_sub(due_ns));
                }
            }
        }
    }

    fn into_report(self) -> Report {
        let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let mut report = self.report;
        let counted_ns = self.ended_ns.min(self.end_ns).saturating_sub(self.warmup_ns);
        report.elapsed = std::time::Duration::from_nanos(counted_ns.max(1));
        report.generator_cpu = std::time::Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32);
        report
    }
}
