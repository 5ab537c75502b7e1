//! What to profile, and how.

use std::str::FromStr;

use crate::ProfileError;
use crate::kind::Kind;

/// Fewest samples per second and thread.
pub const FREQUENCY_HZ_MIN: u32 = 99;
/// Most samples per second and thread.
pub const FREQUENCY_HZ_MAX: u32 = 1000;

/// Fewest bytes between two samples of an allocation profile.
pub const ALLOC_INTERVAL_BYTES_MIN: u64 = 1024;
/// Most bytes between two samples of an allocation profile.
pub const ALLOC_INTERVAL_BYTES_MAX: u64 = 1 << 30;
const ALLOC_INTERVAL_BYTES_DEFAULT: u64 = 512 * 1024;

impl FromStr for Kind {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        Kind::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| ProfileError::BadOption {
            option: "kind",
            found: if text.is_empty() { "empty".to_owned() } else { text.to_owned() },
            expected: "cpu, alloc or lock".to_owned(),
        })
    }
}

/// Who takes the samples of a CPU or lock profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mechanism {
    /// The kernel's performance events if it permits them, else CPU timers in the process.
    #[default]
    Auto,
    /// `perf_event_open`, or nothing.
    PerfEvents,
    /// Inside the process: CPU timers that send `SIGPROF`. Waits cannot be seen that way.
    InProcess,
}

/// How to profile. The default suits a production node.
#[derive(Debug, Clone)]
pub struct Options {
    /// CPU samples per second and running thread, 99 to 1,000. The default is 499: odd, so that it does not beat with
    /// timers that tick in round figures.
    pub frequency_hz: u32,
    /// Bytes between two samples of an allocation profile, on average.
    pub alloc_interval_bytes: u64,
    /// Who takes the samples.
    pub mechanism: Mechanism,
    /// Functions of the program in which a thread waits for a condition because there is nothing to do.
    pub idle_functions: &'static [&'static str],
    /// Whether a lock profile keeps threads that wait because there is nothing to do.
    pub include_idle: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            frequency_hz: 499,
            alloc_interval_bytes: ALLOC_INTERVAL_BYTES_DEFAULT,
            mechanism: Mechanism::Auto,
            idle_functions: &[],
            include_idle: false,
        }
    }
}

impl Options {
    pub(crate) fn check(&self) -> Result<(), ProfileError> {
        if !(FREQUENCY_HZ_MIN..=FREQUENCY_HZ_MAX).contains(&self.frequency_hz) {
            return Err(ProfileError::BadOption {
                option: "frequency_hz",
                found: self.frequency_hz.to_string(),
                expected: format!("{FREQUENCY_HZ_MIN} to {FREQUENCY_HZ_MAX}"),
            });
        }
        if !(ALLOC_INTERVAL_BYTES_MIN..=ALLOC_INTERVAL_BYTES_MAX).contains(&self.alloc_interval_bytes) {
            return Err(ProfileError::BadOption {
                option: "alloc_interval_bytes",
                found: self.alloc_interval_bytes.to_string(),
                expected: format!("{ALLOC_INTERVAL_BYTES_MIN} to {ALLOC_INTERVAL_BYTES_MAX}"),
            });
        }
        Ok(())
    }

    /// The CPU time of one sample.
    pub(crate) fn period_ns(&self) -> u64 {
        1_000_000_000 / u64::from(self.frequency_hz)
    }
}
