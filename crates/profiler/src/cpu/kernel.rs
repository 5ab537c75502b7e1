//! CPU samples from the kernel: its CPU clock, one event and one ring per thread.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use super::records::{Record, records};
use crate::collector::Source;
use crate::recorder::{RawSample, Recorder};
use crate::sys::calls;
use crate::sys::perf_event::{
    Attributes, FLAG_EXCLUDE_KERNEL, PerfEvent, SAMPLE_CALLCHAIN, SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME,
    SW_CPU_CLOCK,
};

/// Bounds descriptors and locked memory: a ring has 68 KiB.
const THREADS_MAX: usize = 1024;
/// A ring holds at least 60 samples; a thread gets at most one per period.
const SAMPLES_PER_DRAIN: u64 = 25;
const DRAIN_INTERVAL_MAX: Duration = Duration::from_millis(100);

pub(super) struct KernelSource {
    attributes: Attributes,
    period_ns: u64,
    threads: HashMap<u32, PerfEvent>,
    buffer: Vec<u8>,
    notes: Vec<String>,
}

impl KernelSource {
    /// Tries it on the calling thread: with kernel frames, else without.
    pub(super) fn start(period_ns: u64) -> io::Result<Self> {
        let sample_type = SAMPLE_IP | SAMPLE_TID | SAMPLE_TIME | SAMPLE_CALLCHAIN;
        let with_kernel = Attributes::software(SW_CPU_CLOCK, period_ns, sample_type, 0);
        let own = calls::thread_id();
        let (attributes, note) = match PerfEvent::open(&with_kernel, own) {
            Ok(_) => (with_kernel, "sampled by the kernel's CPU clock, with kernel frames".to_owned()),
            Err(reason) => {
                let user = Attributes::software(SW_CPU_CLOCK, period_ns, sample_type, FLAG_EXCLUDE_KERNEL);
                drop(PerfEvent::open(&user, own)?);
                (user, format!("sampled by the kernel's CPU clock; kernel time is missing ({reason})"))
            }
        };
        Ok(KernelSource {
            attributes,
            period_ns,
            threads: HashMap::new(),
            buffer: Vec::new(),
            notes: vec![note],
        })
    }
}

impl Source for KernelSource {
    fn drain(&mut self, recorder: &mut Recorder) {
        super::note_frame_pointers(recorder);
        self.notes.drain(..).for_each(|note| recorder.note_once(&note));
        for (thread, event) in &self.threads {
            self.buffer.clear();
            event.read_into(&mut self.buffer);
            for record in records(&self.buffer) {
                match record {
                    Record::Sample { at_ns, stack } => match recorder.intern(stack.as_slice()) {
                        Some(node) => recorder.record(RawSample {
                            thread: *thread,
                            node,
                            at_ns,
                            weight: self.period_ns,
                            count: 1,
                        }),
                        None => recorder.dropped += 1,
                    },
                    Record::Lost(count) => recorder.dropped += count,
                    Record::Switch { .. } => {}
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
            if self.threads.contains_key(id) {
                continue;
            }
            if self.threads.len() == THREADS_MAX {
                recorder.note_once("more threads than the profiler follows: some are missing");
                return;
            }
            match PerfEvent::open(&self.attributes, *id) {
                Ok(event) => _ = self.threads.insert(*id, event),
                // It has ended meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                Err(error) => recorder.note_once(&format!("threads are missing: {error}")),
            }
        }
    }

    fn stop(&mut self, recorder: &mut Recorder) {
        for event in self.threads.values() {
            if let Err(error) = event.disable() {
                recorder.note_once(&format!("an event could not be stopped: {error}"));
            }
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(self.period_ns * SAMPLES_PER_DRAIN).min(DRAIN_INTERVAL_MAX)
    }
}
