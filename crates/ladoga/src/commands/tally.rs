use std::io::{IsTerminal, Write, stderr};

use ladoga_env::Clock;
use ladoga_env::real::RealClock;
use serde_json::Value;

use super::Failure;

/// What every answer of a batch begins with; the status follows.
const BEGINNING: &[u8] = b"{\"status\":";
const STATUS_DIGITS: usize = 3;
/// From this status on, an operation has failed.
const FAILURES_FROM: u16 = 400;

/// What is kept of an answer: its reason is told if it is no longer.
const BEGINNING_BYTES_MAX: usize = 1 << 10;

/// The answers of a batch, which are lines that come in pieces. Of a line it keeps only the beginning.
#[derive(Default)]
pub(super) struct AnswerLines {
    beginning: Vec<u8>,
}

impl AnswerLines {
    /// A piece of the answers: gives the beginning of each that it ends to `take`.
    pub(super) fn add(&mut self, piece: &[u8], mut take: impl FnMut(&[u8])) {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            let room = BEGINNING_BYTES_MAX - self.beginning.len();
            self.beginning.extend_from_slice(&part[..part.len().min(room)]);
            if part.ends_with(b"\n") {
                take(&self.beginning);
                self.beginning.clear();
            }
        }
    }
}

/// The digits of the status of an answer.
fn status_digits(answer: &[u8]) -> Option<&str> {
    str::from_utf8(answer.strip_prefix(BEGINNING)?.get(..STATUS_DIGITS)?).ok()
}

/// The status of an answer, if it has one.
pub(super) fn status_of(answer: &[u8]) -> Option<u16> {
    status_digits(answer)?.parse().ok()
}

/// Why an operation failed, if its answer says that.
pub(super) fn reason_of(answer: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    answer["error"].as_str().map(str::to_owned)
}

/// Counts the answers of a batch.
#[derive(Default)]
pub(super) struct Tally {
    lines: AnswerLines,
    pub(super) answers: u64,
    failures: u64,
    first_failure: Option<FailedOperation>,
}

fn is_success(status: u16) -> bool {
    (200..FAILURES_FROM).contains(&status)
}

/// An operation that was refused.
pub(super) struct FailedOperation {
    /// Which of the answers says so, from 1 on.
    pub(super) number: u64,
    status: String,
    /// Why, if the answer says that.
    reason: Option<String>,
}

impl FailedOperation {
    fn of(number: u64, status: Option<&str>, answer: &[u8]) -> FailedOperation {
        let status = status.unwrap_or("no status").to_owned();
        FailedOperation { number, status, reason: reason_of(answer) }
    }
}

impl Tally {
    /// A piece of the answers.
    pub(super) fn add(&mut self, piece: &[u8]) {
        let mut lines = std::mem::take(&mut self.lines);
        lines.add(piece, |answer| self.count(answer));
        self.lines = lines;
    }

    /// One of them.
    pub(super) fn count(&mut self, answer: &[u8]) {
        self.answers += 1;
        if !status_of(answer).is_some_and(is_success) {
            self.failures += 1;
            let failed = || FailedOperation::of(self.answers, status_digits(answer), answer);
            self.first_failure.get_or_insert_with(failed);
        }
    }

    /// Counts what was sent by itself, as if it had been in the batch.
    pub(super) fn count_one(&mut self, status: u16, reason: String) {
        self.answers += 1;
        if is_success(status) {
            return;
        }
        self.failures += 1;
        let (number, status, reason) = (self.answers, status.to_string(), Some(reason));
        self.first_failure.get_or_insert(FailedOperation { number, status, reason });
    }

    /// How many have not failed.
    pub(super) const fn successes(&self) -> u64 {
        self.answers - self.failures
    }

    /// The first operation that failed.
    pub(super) const fn first_failure(&self) -> Option<&FailedOperation> {
        self.first_failure.as_ref()
    }

    /// Fails if an operation has. `which` says where the first one is, of whose answer it is given the number.
    pub(super) fn outcome(&self, which: impl FnOnce(u64) -> String) -> Result<(), Failure> {
        let Some(FailedOperation { number, status, reason }) = &self.first_failure else { return Ok(()) };
        let which = which(*number);
        let why = reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let Tally { failures, answers, .. } = self;
        Err(Failure::Failed(format!(
            "{failures} of {answers} operations failed; the first one is {which}, with status {status}{why}"
        )))
    }
}

/// Says on standard error how far a long command is: on a terminal every second, else every ten.
pub(super) struct ProgressLine {
    clock: RealClock,
    what: &'static str,
    began_ms: u64,
    told_ms: u64,
    every_ms: u64,
    is_on_terminal: bool,
    has_told: bool,
}

/// A command that takes no longer is quiet.
const QUIET_MS: u64 = 2_000;

impl ProgressLine {
    pub(super) fn of(what: &'static str) -> ProgressLine {
        let (clock, is_on_terminal) = (RealClock::new(), stderr().is_terminal());
        let now_ms = clock.monotonic_ns() / 1_000_000;
        let every_ms = if is_on_terminal { 1_000 } else { 10_000 };
        ProgressLine {
            clock,
            what,
            began_ms: now_ms,
            told_ms: now_ms,
            every_ms,
            is_on_terminal,
            has_told: false,
        }
    }

    /// So many are done. If that cannot be printed, nothing is lost.
    pub(super) fn tell(&mut self, done: u64) {
        let now_ms = self.clock.monotonic_ns() / 1_000_000;
        let (passed_ms, what) = (now_ms - self.began_ms, self.what);
        if passed_ms < QUIET_MS || now_ms - self.told_ms < self.every_ms {
            return;
        }
        (self.told_ms, self.has_told) = (now_ms, true);
        let per_second = done * 1_000 / passed_ms;
        let line = format!("{done} {what}, {per_second} per second");
        _ = if self.is_on_terminal {
            write!(stderr(), "\r\x1b[K{line}")
        } else {
            writeln!(stderr(), "{line}")
        };
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if self.has_told && self.is_on_terminal {
            _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(answers: &[u8], step: usize) -> Tally {
        let mut tally = Tally::default();
        answers.chunks(step).for_each(|piece| tally.add(piece));
        tally
    }

    #[test]
    fn failures_are_counted_however_the_answers_come() {
        let answers = b"{\"status\":201}\n{\"status\":412,\"error\":\"{\\\"status\\\":200}\"}\n{\"status\":304}\n{\"status\":503}\n";
        for step in 1..=answers.len() {
            let tally = tally(answers, step);
            assert_eq!((tally.answers, tally.failures), (4, 2), "by {step}");
            let said = tally.outcome(|number| format!("number {number}")).expect_err("two failed");
            let expected =
                "2 of 4 operations failed; the first one is number 2, with status 412: {\"status\":200}";
            assert_eq!(tally.first_failure().map(|failed| failed.number), Some(2));
            assert!(matches!(said, Failure::Failed(reason) if reason == expected));
        }
    }

    #[test]
    fn what_is_no_answer_is_a_failure() {
        assert!(tally(b"{\"status\":200}\n", 5).outcome(|_| String::new()).is_ok());
        for answers in [&b"\n"[..], b"{}\n", b"{\"status\":9\n", b"{\"status\":100}\n"] {
            assert!(tally(answers, 7).outcome(|_| String::new()).is_err(), "{}", answers.escape_ascii());
        }
    }
}
