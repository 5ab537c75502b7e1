//! What is asked again, and for how long.

use std::thread;
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;

use super::Failure;
use crate::client::{ClientError, Response};

/// How soon a side is asked again if it does not say; twice as long after each attempt, up to the second.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A side that sends or takes nothing for so long is gone. Nodes give a sign more often.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(45);

/// For how long a side is asked again that cannot do it now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    total: Duration,
    /// Who says so, if anybody does.
    source: &'static str,
}

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It may pass; the side says when to ask again, or nothing.
    Passing { reason: String, pause: Option<Duration> },
    /// Asking again would not help.
    Lasting(Failure),
}

impl Trouble {
    /// What a side answers instead of what was expected.
    pub(super) fn refused(response: Response) -> Trouble {
        let (status, pause) = (response.status, pause_of(&response));
        Trouble::of_status(status, response.refusal(), pause)
    }

    /// The same, of a part of an answer.
    pub(super) fn of_status(status: u16, reason: String, pause: Option<Duration>) -> Trouble {
        if is_passing(status) {
            Trouble::Passing { reason, pause }
        } else {
            Trouble::Lasting(Failure::Failed(reason))
        }
    }
}

/// Whether what a side answers with this status may be answered otherwise later. By 408, a node that needs its memory for others asks for a
/// value to be sent again.
pub(super) const fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 429 | 502..=504)
}

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        match error {
            ClientError::Unreachable { .. }
            | ClientError::Broken { .. }
            | ClientError::Silent { .. }
            | ClientError::Cut { .. } => Trouble::Passing { reason: error.to_string(), pause: None },
            ClientError::NotHttp { .. } | ClientError::NotANode { .. } => Trouble::Lasting(error.into()),
        }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Trouble {
        Trouble::Lasting(failure)
    }
}

/// What a side says about when to ask again.
fn pause_of(response: &Response) -> Option<Duration> {
    let seconds = response.header("retry-after")?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// How long to wait; nothing if that is over. Who is asked to wait for longer than is left asks once more at the end.
fn pause_within(left: Duration, wanted: Duration) -> Option<Duration> {
    (left >= PAUSE_MIN).then(|| wanted.clamp(PAUSE_MIN, left))
}

impl Patience {
    pub(super) const fn of_flag(total: Duration) -> Patience {
        Patience { total, source: ", as --patience says" }
    }

    pub(super) const fn fixed(total: Duration) -> Patience {
        Patience { total, source: "" }
    }

    pub(super) fn begin(self) -> Attempts {
        Attempts { patience: self, clock: RealClock::new(), failed_since_ms: None, pause: PAUSE_MIN }
    }
}

/// Attempts at something that have to succeed in the end.
pub(super) struct Attempts {
    patience: Patience,
    clock: RealClock,
    failed_since_ms: Option<u64>,
    pause: Duration,
}

impl Attempts {
    /// Waits before the next one, unless it would not help or it has taken too long.
    pub(super) fn failed(&mut self, trouble: Trouble) -> Result<(), Failure> {
        let (reason, pause) = match trouble {
            Trouble::Passing { reason, pause } => (reason, pause),
            Trouble::Lasting(failure) => return Err(failure),
        };
        let now_ms = self.clock.monotonic_ns() / 1_000_000;
        let since_ms = *self.failed_since_ms.get_or_insert(now_ms);
        let Patience { total, source } = self.patience;
        let left = total.saturating_sub(Duration::from_millis(now_ms - since_ms));
        let Some(pause) = pause_within(left, pause.unwrap_or(self.pause)) else {
            let seconds = total.as_secs();
            return Err(Failure::Failed(format!("{reason} (asked again for {seconds} s{source})")));
        };
        thread::sleep(pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        Ok(())
    }

    /// Something was done: what fails from now on is another matter.
    pub(super) fn succeeded(&mut self) {
        (self.failed_since_ms, self.pause) = (None, PAUSE_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passing(ms: u64) -> Trouble {
        Trouble::Passing { reason: "busy".to_owned(), pause: Some(Duration::from_millis(ms)) }
    }

    #[test]
    fn patience_ends_and_begins_anew_after_a_success() {
        let mut attempts = Patience::of_flag(Duration::from_mins(1)).begin();
        assert!(attempts.failed(passing(1)).is_ok());
        let mut none = Patience::of_flag(Duration::ZERO).begin();
        let Err(Failure::Failed(reason)) = none.failed(passing(1)) else { panic!("no patience") };
        assert_eq!(reason, "busy (asked again for 0 s, as --patience says)");
        none.succeeded();
        assert!(none.failed_since_ms.is_none());
    }

    #[test]
    fn only_what_may_pass_is_asked_again() {
        let of = |status| Trouble::of_status(status, String::new(), None);
        for status in [408, 429, 502, 503, 504] {
            assert!(matches!(of(status), Trouble::Passing { .. }), "{status}");
        }
        for status in [400, 401, 403, 404, 413, 500, 501, 507] {
            assert!(matches!(of(status), Trouble::Lasting(_)), "{status}");
        }
    }

    /// Who had to wait for longer than five seconds was asked every five.
    #[test]
    fn a_side_is_asked_when_it_says_within_what_is_left() {
        let (minute, half) = (Duration::from_mins(1), Duration::from_secs(30));
        assert_eq!(pause_within(minute, half), Some(half));
        assert_eq!(pause_within(half, minute), Some(half));
        assert_eq!(pause_within(minute, Duration::ZERO), Some(PAUSE_MIN));
        assert_eq!(pause_within(PAUSE_MIN / 2, Duration::ZERO), None);
    }
}
