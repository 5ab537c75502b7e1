//! Lock and wait profiles: time off the CPU by call site.
//!
//! `parking_lot`, std and tokio all wait in the kernel at last, so its context switches see every one of them without a
//! change to their code: where a thread left the CPU, and when it came back. That needs the right to see the kernel's
//! side (`perf_event_paranoid` ≤ 1 or `CAP_PERFMON`). Where it is refused, only what runs inside [`site::waiting`] is seen.
//!
//! What it does not see: spinning (it is CPU time), and a task that waits inside an executor while its thread runs others.

mod classify;
mod kernel;
pub(crate) mod site;

pub(crate) use classify::classify;

use crate::ProfileError;
use crate::collector::Source;
use crate::options::{Kind, Mechanism, Options};

pub(crate) fn source(options: &Options) -> Result<Box<dyn Source>, ProfileError> {
    let refused = match options.mechanism {
        Mechanism::InProcess => None,
        Mechanism::Auto | Mechanism::PerfEvents => match kernel::SwitchSource::start() {
            Ok(source) => return Ok(Box::new(source)),
            Err(error) => Some(error),
        },
    };
    let reason = refused.map(|error| {
        format!(
            "context switches cannot be followed ({error}): perf_event_paranoid <= 1 or CAP_PERFMON is needed"
        )
    });
    match (options.mechanism, reason) {
        (Mechanism::PerfEvents, Some(reason)) => Err(ProfileError::Unavailable { kind: Kind::Lock, reason }),
        (_, reason) => Ok(Box::new(site::SiteSource::start(reason))),
    }
}
