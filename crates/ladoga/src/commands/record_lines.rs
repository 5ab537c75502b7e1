use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Failure;
use super::lines::Chunk;
use super::patience::{Trouble, is_passing};
use super::record::{LargeRecord, Record, key_and_conditions, record};
use super::tally::{reason_of, status_of};
use crate::client::Url;

/// The longest record: a value of 64 MiB in Base64, or with every byte escaped.
pub(super) const RECORD_BYTES_MAX: usize = 512 << 20;
/// The status of what comes when the rate of a token is used up.
const RATE_USED_UP: u16 = 429;

/// A line that is sent, until its answer counts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SentLine {
    pub(super) number: u64,
    pub(super) text: Vec<u8>,
}

/// The lines whose answers are still to come, in order.
#[derive(Default)]
pub(super) struct Unanswered(Mutex<VecDeque<SentLine>>);

impl Unanswered {
    pub(super) fn push(&self, number: u64, text: &[u8]) {
        self.lock().push_back(SentLine { number, text: text.to_vec() });
    }

    /// The one that the next answer is about.
    pub(super) fn pop(&self) -> Option<SentLine> {
        self.lock().pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<SentLine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why no more of the source goes into this request.
pub(super) enum Pause {
    /// This comes next, and is stored by itself.
    Large(LargeRecord),
    /// Nothing more comes.
    Failed(Failure),
}

/// How many lines a request has at most. What arrives is paid for before it is refused because the rate of a token is used up: whoever sends
/// all of it again each time uses the rate up with that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window(usize);

impl Window {
    /// As many as there are.
    pub(super) const WHOLE: Window = Window(usize::MAX);

    pub(super) const fn lines_max(self) -> usize {
        self.0
    }

    /// The next one, after a request of whose lines the rate had room for so many until it was used up, if it was, and which could have had
    /// so many more. Lines that are refused for other reasons leave room for those behind them.
    fn after(self, admitted: usize, (room, is_rate_used_up): (usize, bool)) -> Window {
        match (is_rate_used_up, room) {
            (true, _) => Window(admitted.max(1)),
            (false, 0) if admitted > 0 => Window(self.0.saturating_mul(2)),
            (false, _) => self,
        }
    }
}

/// The lines of a file of records.
#[derive(Default)]
pub(super) struct RecordLines {
    /// What was read, from the next line on.
    pub(super) bytes: Vec<u8>,
    /// Whether they end where a line does.
    pub(super) is_whole: bool,
    /// Of the last line that was looked at.
    pub(super) number: u64,
    pub(super) expired: u64,
    pub(super) stop: Option<Pause>,
    /// Lines before them that have to be sent again, in order.
    pub(super) again: VecDeque<SentLine>,
}

impl RecordLines {
    pub(super) fn add(&mut self, Chunk { bytes, is_within_a_line }: Chunk) {
        self.bytes.extend(bytes);
        // What is longer than any record is looked at, so that it is refused.
        self.is_whole = !is_within_a_line || self.bytes.len() > RECORD_BYTES_MAX;
    }

    pub(super) const fn has_lines(&self) -> bool {
        self.is_whole && !self.bytes.is_empty()
    }

    /// Makes a part of a batch of the lines that are there, up to one that cannot be in it, or as long as there is room for them. What a record says about its expiry is made a
    /// time to live only now, just before it is sent: it may have waited for long.
    pub(super) fn render(&mut self, now_ms: u64, unanswered: &Unanswered, room: &mut usize) -> Vec<u8> {
        let mut operations = Vec::new();
        while *room > 0
            && let Some(SentLine { number, text }) = self.again.pop_front()
        {
            match record(&text, now_ms) {
                Ok(Record::Line(operation)) => {
                    operations.extend_from_slice(&operation);
                    unanswered.push(number, &text);
                    *room -= 1;
                }
                // It was a line of a batch when it was sent: nothing but its time has changed.
                _ => self.expired += 1,
            }
        }
        if !self.has_lines() || self.stop.is_some() {
            return operations;
        }
        let mut done = 0;
        for line in self.bytes.split_inclusive(|&byte| byte == b'\n') {
            if *room == 0 {
                break;
            }
            done += line.len();
            self.number += 1;
            match record(line, now_ms) {
                Ok(Record::Line(operation)) => {
                    operations.extend_from_slice(&operation);
                    unanswered.push(self.number, line);
                    *room -= 1;
                }
                Ok(Record::Large(record)) => {
                    self.stop = Some(Pause::Large(record));
                    break;
                }
                Ok(Record::Expired) => self.expired += 1,
                Ok(Record::Blank) => {}
                Err(reason) => {
                    let reason = format!("{reason}; expected a line as ladoga export writes it");
                    self.stop = Some(Pause::Failed(not_imported(self.number, &reason)));
                    break;
                }
            }
        }
        self.bytes.drain(..done);
        operations
    }
}

/// What has to be sent again: lines that were refused for now, and those behind them that are about the same keys, so that the last one of a
/// key counts.
#[derive(Default)]
pub(super) struct Refused {
    pub(super) lines: VecDeque<SentLine>,
    keys: BTreeSet<Vec<u8>>,
    /// The first one, and what was said.
    pub(super) why: Option<(u64, Trouble)>,
    /// How many of them were answered by a refusal of the whole batch, or `429`: what is refused for other reasons had room in the rate.
    without_room: usize,
    is_rate_used_up: bool,
}

impl Refused {
    /// Whether this line has to be sent again.
    pub(super) fn takes(&mut self, line: &SentLine, answer: &[u8], url: &Url) -> bool {
        let status = status_of(answer).filter(|&status| is_passing(status));
        if status.is_none() && self.keys.is_empty() {
            return false;
        }
        let (key, has_conditions) = key_and_conditions(&line.text).unwrap_or_default();
        match status {
            Some(status) if is_worth_another(status, has_conditions) => {
                let reason = reason_of(answer).unwrap_or_else(|| "it does not say why".to_owned());
                let reason = format!("{url} answered {status}: {reason}");
                self.why.get_or_insert_with(|| (line.number, Trouble::of_status(status, reason, None)));
                self.keys.insert(key);
                if status == RATE_USED_UP {
                    (self.without_room, self.is_rate_used_up) = (self.without_room + 1, true);
                }
                true
            }
            _ => self.keys.contains(&key),
        }
    }

    /// The same of a whole batch, which is answered by nothing else.
    pub(super) fn take_all(
        &mut self,
        unanswered: &Unanswered,
        status: u16,
        trouble: Trouble,
    ) -> Result<(), Failure> {
        while let Some(line) = unanswered.pop() {
            self.lines.push_back(line);
        }
        (self.without_room, self.is_rate_used_up) = (self.lines.len(), status == RATE_USED_UP);
        let has_conditions = |line: &SentLine| key_and_conditions(&line.text).is_some_and(|(_, has)| has);
        let has_conditions = self.lines.iter().any(has_conditions);
        match trouble {
            Trouble::Passing { reason, .. } if !is_worth_another(status, has_conditions) => {
                Err(Failure::Failed(reason))
            }
            Trouble::Lasting(failure) => Err(failure),
            trouble @ Trouble::Passing { .. } => {
                let line = self.lines.front().map_or(0, |line| line.number);
                self.why = Some((line, trouble));
                Ok(())
            }
        }
    }

    /// The window after the request in which these lines were refused, and so many others were done.
    pub(super) fn window_after(&self, window: Window, done: usize, room: usize) -> Window {
        window.after(done + self.lines.len() - self.without_room, (room, self.is_rate_used_up))
    }
}

/// Whether a record that got this answer is sent again. With a condition, only if it was certainly not stored: else it would not be met.
pub(super) const fn is_worth_another(status: u16, has_conditions: bool) -> bool {
    is_passing(status) && (!has_conditions || matches!(status, RATE_USED_UP | 503))
}

pub(super) fn not_imported(line: u64, reason: &str) -> Failure {
    Failure::Failed(format!("line {line} was not imported: {reason}"))
}

#[cfg(test)]
#[path = "record_lines_tests.rs"]
mod tests;
