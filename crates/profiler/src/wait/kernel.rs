//! Waits as the kernel sees them: a stack when a thread leaves the CPU, a record when it comes back.
//!
//! A switch with its stack costs some microseconds, and a busy thread may switch 50,000 times a second. So each thread is
//! watched in bursts: the kernel records `BURST` switches and disables itself; the thread then rests until the burst's
//! cost is 1.5 % of the time since it began, and its waits count for the rest too. A thread with few switches, which is
//! one with long waits, never uses up a burst: its waits are exact.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use crate::cpu::records::{Record, records};
use crate::recorder::{RawSample, Recorder};
use crate::source::Source;
use crate::sys::calls;
use crate::sys::perf_event::{EventKind, PerfEvent, Target};

/// What a ring surely holds, with the records of leaving and coming back.
const BURST: u32 = 50;
/// Measured with `examples/overhead.rs`: the stack, both records and the collector's part.
const SWITCH_COST_NS: u64 = 6_000;
/// At most this part of a thread's time goes into watching it.
const BUDGET_DIVISOR: u64 = 66;
const THREADS_MAX: usize = 1024;
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct SwitchSource {
    threads: HashMap<u32, Watched>,
    buffer: Vec<u8>,
}

struct Watched {
    event: PerfEvent,
    burst_started_ns: u64,
    /// Until when all waits have been handed over.
    handed_over_ns: u64,
    /// Samples since the burst began.
    taken: u32,
    /// The wait that has begun: when, the stack, whether it only waits for a CPU.
    open: Option<(u64, u32)>,
    /// A stack whose record of leaving has not come yet.
    leaving: Option<u32>,
    /// Finished waits of this burst; their weight is known when it ends.
    finished: Vec<RawSample>,
}

impl SwitchSource {
    pub(super) fn start() -> io::Result<Self> {
        drop(PerfEvent::open(EventKind::Switches, Target::Thread(calls::thread_id()))?);
        Ok(SwitchSource { threads: HashMap::new(), buffer: Vec::new() })
    }
}

impl Watched {
    fn start(thread: u32) -> io::Result<Self> {
        let event = PerfEvent::open(EventKind::Switches, Target::Thread(thread))?;
        event.enable_for(BURST)?;
        let now_ns = calls::monotonic_ns();
        Ok(Watched {
            event,
            burst_started_ns: now_ns,
            handed_over_ns: now_ns,
            taken: 0,
            open: None,
            leaving: None,
            finished: Vec::new(),
        })
    }

    fn take(&mut self, thread: u32, record: Record, recorder: &mut Recorder) {
        match record {
            Record::Sample { stack, .. } => {
                self.taken += 1;
                self.leaving = recorder.intern(stack.as_slice());
                recorder.dropped += u64::from(self.leaving.is_none());
            }
            // Taken off the CPU while it could have run: no wait for a lock, but for a core. Not this profile's matter.
            Record::Switch { out: true, preempted: true, .. } => self.leaving = None,
            Record::Switch { at_ns, out: true, .. } => {
                self.open = self.leaving.take().map(|node| (at_ns, node));
            }
            Record::Switch { at_ns, out: false, .. } => {
                if let Some((since_ns, node)) = self.open.take() {
                    let weight = at_ns.saturating_sub(since_ns);
                    self.finished.push(RawSample { thread, node, at_ns, weight, count: 1 });
                }
            }
            Record::Lost(count) => {
                recorder.dropped += count;
                self.open = None;
            }
        }
    }

    /// Whether the kernel has stopped by itself.
    fn is_exhausted(&self) -> bool {
        self.taken >= BURST
    }

    /// The moment until which an exhausted thread rests.
    fn rests_until_ns(&self) -> u64 {
        self.burst_started_ns + u64::from(self.taken) * SWITCH_COST_NS * BUDGET_DIVISOR
    }

    /// Hands over the waits; after a burst each also counts for its part of the rest.
    fn hand_over(&mut self, now_ns: u64, recorder: &mut Recorder) {
        let watched_ns =
            self.finished.last().map_or(0, |last| last.at_ns.saturating_sub(self.handed_over_ns));
        let scaled = self.is_exhausted() && watched_ns > 0;
        let resting = now_ns.saturating_sub(self.handed_over_ns) as f64 / watched_ns.max(1) as f64;
        let factor = if scaled { resting.max(1.0) } else { 1.0 };
        for mut sample in self.finished.drain(..) {
            sample.weight = (sample.weight as f64 * factor) as u64;
            sample.count = factor.round() as u64;
            recorder.record(sample);
        }
        self.handed_over_ns = now_ns;
    }
}

impl Source for SwitchSource {
    fn drain(&mut self, recorder: &mut Recorder) {
        crate::cpu::note_frame_pointers(recorder);
        recorder.note_once(
            "time off the CPU from context switches; spinning and waiting tasks of an executor are not in it",
        );
        let now_ns = calls::monotonic_ns();
        for (thread, watched) in &mut self.threads {
            self.buffer.clear();
            watched.event.read_into(&mut self.buffer);
            for record in records(&self.buffer) {
                watched.take(*thread, record, recorder);
            }
            if !watched.is_exhausted() {
                watched.hand_over(now_ns, recorder);
            } else if now_ns >= watched.rests_until_ns() {
                watched.hand_over(now_ns, recorder);
                recorder
                    .note_once("threads that switch often were watched in bursts; their waits are scaled up");
                (watched.taken, watched.open, watched.leaving) = (0, None, None);
                watched.burst_started_ns = now_ns;
                if let Err(error) = watched.event.enable_for(BURST) {
                    recorder.note_once(&format!("a thread is no longer watched: {error}"));
                }
            }
        }
    }

    fn follow_threads(&mut self, ids: &[u32], recorder: &mut Recorder) {
        if self.threads.keys().any(|id| !ids.contains(id)) {
            self.drain(recorder);
            self.threads.retain(|id, _| ids.contains(id));
        }
        for id in ids {
            if self.threads.contains_key(id) || self.threads.len() == THREADS_MAX {
                continue;
            }
            match Watched::start(*id) {
                Ok(watched) => _ = self.threads.insert(*id, watched),
                // The thread has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => recorder.note_once(&format!("threads are missing: {error}")),
            }
        }
    }

    fn stop(&mut self, recorder: &mut Recorder) {
        self.drain(recorder);
        let now_ns = calls::monotonic_ns();
        for (thread, watched) in &mut self.threads {
            // What still waits has waited until now.
            if let Some((since_ns, node)) = watched.open.take().filter(|_| !watched.is_exhausted()) {
                let weight = now_ns.saturating_sub(since_ns);
                watched.finished.push(RawSample { thread: *thread, node, at_ns: now_ns, weight, count: 1 });
            }
            watched.hand_over(now_ns, recorder);
            if let Err(error) = watched.event.disable() {
                recorder.note_once(&format!("an event could not be stopped: {error}"));
            }
        }
    }

    fn interval(&self) -> Duration {
        DRAIN_INTERVAL
    }
}
