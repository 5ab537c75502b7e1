use std::collections::VecDeque;
use std::io::{Read, Write, stderr};
use std::sync::{Mutex, PoisonError};

use ladoga_env::Clock;
use ladoga_env::real::RealClock;

use super::lines::{Chunk, Input, REQUEST_MS_MAX, open};
use super::record::{LargeRecord, Record, record};
use super::tally::{ProgressLine, Tally};
use super::{Failure, complain, counted, node_url};
use crate::batch_arguments::ImportArguments;
use crate::client::{Response, TEXT, Url, exchange};

/// The longest record: a value of 64 MiB in Base64, or with every byte escaped.
pub(super) const RECORD_BYTES_MAX: usize = 512 << 20;

/// Stores the records of an export.
pub(crate) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let mut import = Import::new(url, open(&arguments.file)?);
    let sent = import.run();
    let Import { tally, source, first_failed_line, progress, .. } = import;
    drop(progress);
    let stored = counted(tally.successes(), "record");
    let left_out =
        if source.expired == 0 { String::new() } else { format!("; {} had expired", source.expired) };
    _ = writeln!(stderr(), "{stored} stored{left_out}");
    // The first answer that failed is there, and so is the number of its line.
    let refused = tally.outcome(|_| format!("in line {}", first_failed_line.unwrap_or_default()));
    match (sent, refused) {
        (Err(failure), Err(Failure::Failed(refused))) => {
            complain(format_args!("{refused}"));
            Err(failure)
        }
        (sent, refused) => sent.and(refused),
    }
}

struct Import {
    url: Url,
    input: Input,
    source: RecordLines,
    /// The lines whose answers are still to come, in order.
    unanswered: Mutex<VecDeque<u64>>,
    tally: Tally,
    first_failed_line: Option<u64>,
    progress: ProgressLine,
    clock: RealClock,
}

impl Import {
    fn new(url: Url, input: Box<dyn Read + Send>) -> Import {
        Import {
            url,
            input: Input::of(input),
            source: RecordLines::default(),
            unanswered: Mutex::default(),
            tally: Tally::default(),
            first_failed_line: None,
            progress: ProgressLine::of("records"),
            clock: RealClock::new(),
        }
    }

    /// Stores the records in their order: a key may be there twice, so what is stored by itself waits for the answers to what is before it.
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            if !self.source.has_lines() {
                match self.input.wait() {
                    Some(chunk) => self.source.add(chunk?),
                    None if self.source.bytes.is_empty() => return Ok(()),
                    None => self.source.is_whole = true,
                }
            }
            let first = self.source.render(self.clock.wall_ms(), &self.unanswered);
            if !first.is_empty() {
                self.send(first)?;
            }
            match self.source.stop.take() {
                None => {}
                Some(Pause::Large(record)) => {
                    let number = self.source.number;
                    let put = put(&self.url, &record, self.clock.wall_ms());
                    match put.map_err(|reason| not_imported(number, &reason))? {
                        Some((status, reason)) => self.count_large(number, status, reason),
                        None => self.source.expired += 1,
                    }
                }
                Some(Pause::Failed(failure)) => return Err(failure),
            }
        }
    }

    fn count_large(&mut self, line: u64, status: u16, reason: String) {
        self.tally.count_one(status, reason);
        if self.tally.first_failure().is_some() {
            self.first_failed_line.get_or_insert(line);
        }
        self.progress.tell(self.tally.answers);
    }

    /// Sends `first` and what follows in one request, up to where the source stops or rests.
    fn send(&mut self, first: Vec<u8>) -> Result<(), Failure> {
        let Import { url, input, source, unanswered, tally, first_failed_line, progress, clock } = self;
        let unanswered = &*unanswered;
        let now_ms = || clock.monotonic_ns() / 1_000_000;
        let (mut next, began_ms) = (Some(first), now_ms());
        let body = || loop {
            if let Some(bytes) = next.take().filter(|bytes| !bytes.is_empty()) {
                return Some(bytes);
            }
            if source.stop.is_some() || now_ms() - began_ms > REQUEST_MS_MAX {
                return None;
            }
            match input.next(false)? {
                Ok(chunk) => source.add(chunk),
                Err(error) => source.stop = Some(Pause::Failed(error.into())),
            }
            next = Some(source.render(clock.wall_ms(), unanswered));
        };
        let read = |response: Response| {
            if response.status != 200 {
                return Err(Failure::refused(response));
            }
            response.lines(|piece| {
                let before = tally.answers;
                tally.add(piece);
                let failed = tally.first_failure().map(|failed| failed.number);
                let mut lines = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
                for number in before + 1..=tally.answers {
                    let line = lines.pop_front();
                    *first_failed_line = first_failed_line.or(line.filter(|_| failed == Some(number)));
                }
                progress.tell(tally.answers);
                Ok::<_, Failure>(())
            })
        };
        exchange(url, "/v0/batch", body, read)??;
        let lines = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(line) = lines.front() else { return Ok(()) };
        let reason = format!("{url} answered fewer lines than it was sent: line {line} has no answer");
        Err(Failure::Failed(reason))
    }
}

/// Why no more of the source goes into this request.
enum Pause {
    /// This comes next, and is stored by itself.
    Large(LargeRecord),
    /// Nothing more comes.
    Failed(Failure),
}

/// The lines of a file of records.
#[derive(Default)]
struct RecordLines {
    /// What was read, from the next line on.
    bytes: Vec<u8>,
    /// Whether they end where a line does.
    is_whole: bool,
    /// Of the last line that was looked at.
    number: u64,
    expired: u64,
    stop: Option<Pause>,
}

impl RecordLines {
    fn add(&mut self, Chunk { bytes, is_within_a_line }: Chunk) {
        self.bytes.extend(bytes);
        // What is longer than any record is looked at, so that it is refused.
        self.is_whole = !is_within_a_line || self.bytes.len() > RECORD_BYTES_MAX;
    }

    const fn has_lines(&self) -> bool {
        self.is_whole && !self.bytes.is_empty()
    }

    /// Makes a part of a batch of the lines that are there, up to one that cannot be in it. What a record says about its expiry is made a
    /// time to live only now, just before it is sent: it may have waited for long.
    fn render(&mut self, now_ms: u64, unanswered: &Mutex<VecDeque<u64>>) -> Vec<u8> {
        let (mut operations, mut done) = (Vec::new(), 0);
        if !self.has_lines() {
            return operations;
        }
        let mut numbers = unanswered.lock().unwrap_or_else(PoisonError::into_inner);
        for line in self.bytes.split_inclusive(|&byte| byte == b'\n') {
            done += line.len();
            self.number += 1;
            match record(line, now_ms) {
                Ok(Record::Line(operation)) => {
                    operations.extend_from_slice(&operation);
                    numbers.push_back(self.number);
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

fn not_imported(line: u64, reason: &str) -> Failure {
    Failure::Failed(format!("line {line} was not imported: {reason}"))
}

/// The status that the node answers and why, if that is about this record only, as in a batch; none if the record has expired.
fn put(url: &Url, record: &LargeRecord, now_ms: u64) -> Result<Option<(u16, String)>, String> {
    let Some(request) = record.put(now_ms) else { return Ok(None) };
    let response = request.send_in_time(url).map_err(|error| error.to_string())?;
    let status = response.status;
    let reason = match status {
        201 => response.check_done().map(|()| String::new()),
        400 | 412 if response.is_of_type(TEXT) => response.text(),
        _ => return Err(response.refusal()),
    };
    reason.map(|reason| Some((status, reason))).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_expired_while_it_waited_is_left_out() {
        let (mut source, unanswered) = (RecordLines::default(), Mutex::default());
        let line = b"{\"key\":\"a\",\"value\":\"\",\"expires_ms\":2000}\n";
        let add =
            |source: &mut RecordLines| source.add(Chunk { bytes: line.to_vec(), is_within_a_line: false });
        add(&mut source);
        let operations = source.render(1_500, &unanswered);
        assert!(String::from_utf8_lossy(&operations).contains("\"ttl\":\"500ms\""));
        add(&mut source);
        assert_eq!(source.render(2_000, &unanswered), b"");
        assert_eq!((source.expired, source.number, source.has_lines()), (1, 2, false));
    }
}
