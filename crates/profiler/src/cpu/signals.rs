//! CPU samples from inside the process: a CPU timer and `SIGPROF` per thread.

use std::collections::HashMap;
use std::time::Duration;

use crate::ProfileError;
use crate::hooks::timers::{self, CpuTimer};
use crate::recorder::Recorder;
use crate::source::Source;

const THREADS_MAX: usize = 1024;
const DRAIN_INTERVAL: Duration = Duration::from_millis(20);

pub(super) struct SignalSource {
    period_ns: u64,
    timers: HashMap<u32, CpuTimer>,
    why: Option<String>,
}

impl SignalSource {
    pub(super) fn start(period_ns: u64, why: Option<String>) -> Result<Self, ProfileError> {
        timers::start(period_ns)
            .map_err(|source| ProfileError::System { action: "installing the SIGPROF handler", source })?;
        Ok(SignalSource { period_ns, timers: HashMap::new(), why })
    }
}

impl Source for SignalSource {
    fn drain(&mut self, recorder: &mut Recorder) {
        super::note_frame_pointers(recorder);
        recorder.note_once(self.why.as_deref().unwrap_or("sampled by CPU timers, without kernel frames"));
        crate::memory::drain_ring(Some(timers::ring()), recorder);
    }

    fn follow_threads(&mut self, ids: &[u32], recorder: &mut Recorder) {
        self.timers.retain(|id, _| ids.contains(id));
        for id in ids {
            if self.timers.contains_key(id) {
                continue;
            }
            if self.timers.len() == THREADS_MAX {
                recorder.note_once("more threads than the profiler follows: some are missing");
                return;
            }
            match CpuTimer::start(*id, self.period_ns) {
                Ok(timer) => _ = self.timers.insert(*id, timer),
                // The thread has ended meanwhile, so its clock does not exist.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => recorder.note_once(&format!("threads are missing: {error}")),
            }
        }
    }

    fn stop(&mut self, _recorder: &mut Recorder) {
        self.timers.clear();
        timers::stop();
    }

    fn interval(&self) -> Duration {
        DRAIN_INTERVAL
    }
}

impl Drop for SignalSource {
    fn drop(&mut self) {
        timers::stop();
    }
}
