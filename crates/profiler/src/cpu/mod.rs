//! CPU profiles: by the kernel's events, else by timers in the process. Why: docs/decisions/0021.

mod kernel;
pub(crate) mod records;
mod signals;

use crate::kind::Kind;
use crate::options::{Mechanism, Options};
use crate::recorder::Recorder;
use crate::source::Source;
use crate::{FRAME_POINTERS, ProfileError};

pub(crate) const NO_FRAME_POINTERS: &str =
    "built without frame pointers (-C force-frame-pointers=yes): stacks show little more than their leaf";

pub(crate) fn source(options: &Options) -> Result<Box<dyn Source>, ProfileError> {
    let period_ns = options.period_ns();
    if options.mechanism == Mechanism::InProcess {
        return Ok(Box::new(signals::SignalSource::start(period_ns, None)?));
    }
    match (kernel::KernelSource::start(period_ns), options.mechanism) {
        (Ok(source), _) => Ok(Box::new(source)),
        (Err(error), Mechanism::PerfEvents) => {
            let reason = format!("perf_event_open: {error}; CAP_PERFMON is needed");
            Err(ProfileError::Unavailable { kind: Kind::Cpu, reason })
        }
        (Err(error), _) => {
            let why =
                format!("without kernel frames, by CPU timers (CAP_PERFMON is needed for more: {error})");
            Ok(Box::new(signals::SignalSource::start(period_ns, Some(why))?))
        }
    }
}

pub(crate) fn note_frame_pointers(recorder: &mut Recorder) {
    if !FRAME_POINTERS {
        recorder.note_once(NO_FRAME_POINTERS);
    }
}
