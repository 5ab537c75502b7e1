//! Lock and wait profiles: time off the CPU by call site.
//!
//! `parking_lot`, std and tokio all wait in the kernel in the end, so its context switches show every wait without a change to
//! their code: the stack when a thread left the CPU, and the time when it came back. That needs the right to see the kernel's
//! side (`perf_event_paranoid` ≤ 1 or `CAP_PERFMON`).
//!
//! What it does not see: spinning (it is CPU time), and a task that waits inside an executor while its thread runs others.

mod burst;
mod classify;
mod kernel;

pub(crate) use classify::classify;

use crate::ProfileError;
use crate::kind::Kind;
use crate::options::{Mechanism, Options};
use crate::source::Source;

pub(crate) fn source(options: &Options) -> Result<Box<dyn Source>, ProfileError> {
    let unavailable = |reason| ProfileError::Unavailable { kind: Kind::Lock, reason };
    if options.mechanism == Mechanism::InProcess {
        return Err(unavailable("only the kernel sees which threads wait".to_owned()));
    }
    let source = kernel::SwitchSource::start().map_err(|error| {
        unavailable(format!(
            "context switches cannot be followed ({error}): perf_event_paranoid <= 1 or CAP_PERFMON is needed"
        ))
    })?;
    Ok(Box::new(source))
}
