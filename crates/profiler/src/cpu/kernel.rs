//! CPU samples from the kernel: its CPU clock, with one event and one ring for each core. It samples every process; samples of
//! others are discarded. Why by core and not by thread: docs/decisions/0021.

use std::io;
use std::time::Duration;

use super::records::{Record, records};
use crate::recorder::Recorder;
use crate::source::Source;
use crate::sys::files;
use crate::sys::perf_event::{EventKind, PerfEvent, Target};
use crate::thinning::RawSample;

/// A ring holds at least 500 samples, and gets one in each period, of whichever process runs.
const SAMPLES_PER_DRAIN: u64 = 50;
const DRAIN_INTERVAL_MAX: Duration = Duration::from_millis(100);

pub(super) struct KernelSource {
    period_ns: u64,
    process: u32,
    cores: Vec<PerfEvent>,
    buffer: Vec<u8>,
}

impl KernelSource {
    /// Fails if the process may not observe all of a core (`CAP_PERFMON`).
    pub(super) fn start(period_ns: u64) -> io::Result<Self> {
        let open = |core| PerfEvent::open(EventKind::CpuClock { period_ns }, Target::Core(core));
        let cores = files::online_cores().into_iter().map(open).collect::<io::Result<Vec<_>>>()?;
        if cores.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the system does not tell its cores"));
        }
        Ok(KernelSource { period_ns, process: std::process::id(), cores, buffer: Vec::new() })
    }
}

impl Source for KernelSource {
    fn drain(&mut self, recorder: &mut Recorder) {
        super::note_frame_pointers(recorder);
        recorder.note_once("sampled by the kernel's CPU clock, with kernel frames");
        for core in &self.cores {
            self.buffer.clear();
            core.read_into(&mut self.buffer);
            for record in records(&self.buffer) {
                match record {
                    Record::Sample { process, thread, at_ns, stack }
                        if process == self.process && !recorder.is_left_out(thread) =>
                    {
                        match recorder.intern(stack.as_slice()) {
                            Some(node) => recorder.record(RawSample {
                                thread,
                                node,
                                at_ns,
                                weight: self.period_ns,
                                count: 1,
                            }),
                            None => recorder.dropped += 1,
                        }
                    }
                    Record::Lost(count) => {
                        recorder.dropped += count;
                        recorder.note_once("lost samples may have been those of another process");
                    }
                    Record::Sample { .. } | Record::Switch { .. } => {}
                }
            }
        }
    }

    fn stop(&mut self, recorder: &mut Recorder) {
        for core in &self.cores {
            if let Err(error) = core.disable() {
                recorder.note_once(&format!("an event could not be stopped: {error}"));
            }
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(self.period_ns * SAMPLES_PER_DRAIN).min(DRAIN_INTERVAL_MAX)
    }
}
