//! Waits as the kernel sees them: a stack when a thread leaves the CPU, a record when it comes back.
//!
//! A switch with its stack costs some microseconds, and a busy thread may switch 50,000 times a second. So each thread is
//! watched in bursts: the kernel records `BURST` switches and disables itself; the thread then rests until the burst's
//! cost is 1.5 % of the time since it began, and its waits count for the rest too. With few switches, that is the case long
//! before the burst ends: the thread is watched all the time, but for one wait in each burst, during which it ends.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use super::burst::{BURST, Burst};
use crate::cpu::records::records;
use crate::recorder::Recorder;
use crate::source::Source;
use crate::sys::calls;
use crate::sys::perf_event::{EventKind, PerfEvent, Target};

const THREADS_MAX: usize = 1024;
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct SwitchSource {
    threads: HashMap<u32, Watched>,
    buffer: Vec<u8>,
}

struct Watched {
    event: PerfEvent,
    burst: Burst,
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
        Ok(Watched { event, burst: Burst::begin(calls::monotonic_ns()) })
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
                watched.burst.take(*thread, record, recorder);
            }
            if watched.burst.has_rested(now_ns) {
                std::mem::replace(&mut watched.burst, Burst::begin(now_ns)).hand_over(now_ns, recorder);
                recorder
                    .note_once("threads that switch often were watched in bursts; their waits are scaled up");
                if let Err(error) = watched.event.enable_for(BURST) {
                    recorder.note_once(&format!("a thread is no longer watched: {error}"));
                }
            }
        }
    }

    fn follow_threads(&mut self, ids: &[u32], recorder: &mut Recorder) {
        if self.threads.keys().any(|id| !ids.contains(id)) {
            self.drain(recorder);
            let now_ns = calls::monotonic_ns();
            for (_, ended) in self.threads.extract_if(|id, _| !ids.contains(id)) {
                ended.burst.hand_over(now_ns, recorder);
            }
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
        for (thread, mut watched) in self.threads.drain() {
            watched.burst.cut(thread, now_ns);
            watched.burst.hand_over(now_ns, recorder);
            if let Err(error) = watched.event.disable() {
                recorder.note_once(&format!("an event could not be stopped: {error}"));
            }
        }
    }

    fn interval(&self) -> Duration {
        DRAIN_INTERVAL
    }
}
