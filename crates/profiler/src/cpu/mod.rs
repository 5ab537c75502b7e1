//! CPU profiles: by the kernel's events, else by timers in the process. Why: docs/decisions/0020.

mod kernel;
pub(crate) mod records;
mod signals;

use crate::collector::Source;
use crate::options::{Kind, Mechanism, Options};
use crate::{FRAME_POINTERS, ProfileError};

pub(crate) const NO_FRAME_POINTERS: &str =
    "built without frame pointers (-C force-frame-pointers=yes): stacks show little more than their leaf";

pub(crate) fn source(options: &Options) -> Result<Box<dyn Source>, ProfileError> {
    match options.mechanism {
        Mechanism::InProcess => Ok(Box::new(signals::SignalSource::start(options.period_ns(), None)?)),
        Mechanism::PerfEvents => kernel::KernelSource::start(options.period_ns())
            .map(boxed)
            .map_err(|reason| ProfileError::Unavailable { kind: Kind::Cpu, reason: reason.to_string() }),
        Mechanism::Auto => match kernel::KernelSource::start(options.period_ns()) {
            Ok(source) => Ok(boxed(source)),
            Err(reason) => {
                let why = format!("perf_event_open: {reason}; CPU timers instead, without kernel frames");
                Ok(Box::new(signals::SignalSource::start(options.period_ns(), Some(why))?))
            }
        },
    }
}

fn boxed(source: kernel::KernelSource) -> Box<dyn Source> {
    Box::new(source)
}

pub(crate) fn note_frame_pointers(recorder: &mut crate::recorder::Recorder) {
    if !FRAME_POINTERS {
        recorder.note_once(NO_FRAME_POINTERS);
    }
}
