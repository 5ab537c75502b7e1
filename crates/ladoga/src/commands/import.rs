use std::io::{Read, Write, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ladoga_env::Clock;
use ladoga_env::real::RealClock;

use super::lines::{Input, REQUEST_MS_MAX, open};
use super::patience::{Attempts, Patience, Trouble};
use super::record::LargeRecord;
use super::record_lines::{
    Pause, RecordLines, Refused, SentLine, Unanswered, Window, is_worth_another, not_imported,
};
use super::tally::{AnswerLines, ProgressLine, Tally};
use super::{Failure, complain, counted, node_url};
use crate::batch_arguments::ImportArguments;
use crate::client::{Response, TEXT, Url, exchange};

/// For how long a record is sent again: what a token may use may be used up for minutes by a large one.
const PATIENCE: Patience = Patience::fixed(Duration::from_mins(10));

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
    window: Window,
    unanswered: Unanswered,
    tally: Tally,
    first_failed_line: Option<u64>,
    attempts: Attempts,
    progress: ProgressLine,
    clock: RealClock,
}

impl Import {
    fn new(url: Url, input: Box<dyn Read + Send>) -> Import {
        Import {
            url,
            input: Input::of(input),
            source: RecordLines::default(),
            window: Window::WHOLE,
            unanswered: Unanswered::default(),
            tally: Tally::default(),
            first_failed_line: None,
            attempts: PATIENCE.begin(),
            progress: ProgressLine::of("records"),
            clock: RealClock::new(),
        }
    }

    /// Stores the records in their order: a key may be there twice, so what is stored by itself waits for the answers to what is before it.
    fn run(&mut self) -> Result<(), Failure> {
        loop {
            if self.source.again.is_empty() && !self.source.has_lines() {
                match self.input.wait() {
                    Some(chunk) => self.source.add(chunk?),
                    None if self.source.bytes.is_empty() => return Ok(()),
                    None => self.source.is_whole = true,
                }
            }
            let mut room = self.window.lines_max();
            let first = self.source.render(self.clock.wall_ms(), &self.unanswered, &mut room);
            if !first.is_empty() {
                self.send(first, room)?;
            }
            if !self.source.again.is_empty() {
                continue;
            }
            match self.source.stop.take() {
                None => {}
                Some(Pause::Large(record)) => self.store_large(&record)?,
                Some(Pause::Failed(failure)) => return Err(failure),
            }
        }
    }

    fn store_large(&mut self, record: &LargeRecord) -> Result<(), Failure> {
        let line = self.source.number;
        loop {
            match put(&self.url, record, self.clock.wall_ms()) {
                Ok(Some((status, reason))) => {
                    self.attempts.succeeded();
                    self.tally.count_one(status, reason);
                    break;
                }
                Ok(None) => {
                    self.source.expired += 1;
                    return Ok(());
                }
                Err(trouble) => self.attempts.failed(trouble).map_err(|failure| about(line, failure))?,
            }
        }
        if self.tally.first_failure().is_some() {
            self.first_failed_line.get_or_insert(line);
        }
        self.progress.tell(self.tally.answers);
        Ok(())
    }

    /// Sends `first` and what follows in one request, up to where the source stops or rests, or a line has to be sent again, and as long as
    /// there is room for lines.
    fn send(&mut self, first: Vec<u8>, mut room: usize) -> Result<(), Failure> {
        let Import { url, input, source, unanswered, tally, first_failed_line, progress, clock, .. } = self;
        let (unanswered, has_refused) = (&*unanswered, AtomicBool::new(false));
        let (before, mut refused) = (tally.answers, Refused::default());
        let now_ms = || clock.monotonic_ns() / 1_000_000;
        let (mut next, began_ms) = (Some(first), now_ms());
        let body = || loop {
            if let Some(bytes) = next.take().filter(|bytes| !bytes.is_empty()) {
                return Some(bytes);
            }
            // What follows would be refused as well, and has to be in memory until it is sent again.
            let is_over = has_refused.load(Ordering::Relaxed) || now_ms() - began_ms > REQUEST_MS_MAX;
            if source.stop.is_some() || is_over || room == 0 {
                return None;
            }
            match input.next(false)? {
                Ok(chunk) => source.add(chunk),
                Err(error) => source.stop = Some(Pause::Failed(error.into())),
            }
            next = Some(source.render(clock.wall_ms(), unanswered, &mut room));
        };
        let read = |response: Response| {
            if response.status != 200 {
                return Ok(Some((response.status, Trouble::refused(response))));
            }
            let mut answers = AnswerLines::default();
            response.lines(|piece| {
                answers.add(piece, |answer| match unanswered.pop() {
                    Some(line) if refused.takes(&line, answer, url) => {
                        has_refused.store(true, Ordering::Relaxed);
                        refused.lines.push_back(line);
                    }
                    line => {
                        tally.count(answer);
                        let line = line.filter(|_| tally.first_failure().is_some());
                        *first_failed_line = first_failed_line.or(line.map(|line| line.number));
                    }
                });
                progress.tell(tally.answers);
                Ok::<_, Failure>(())
            })?;
            Ok::<_, Failure>(None)
        };
        if let Some((status, trouble)) = exchange(url, "/v0/batch", body, read)?? {
            refused.take_all(unanswered, status, trouble)?;
        }
        if let Some(SentLine { number, .. }) = unanswered.pop() {
            let reason = format!("{url} answered fewer lines than it was sent: line {number} has no answer");
            return Err(Failure::Failed(reason));
        }
        let done = tally.answers - before;
        self.window = refused.window_after(self.window, done as usize, room);
        // What this request had no room for comes behind what it had.
        refused.lines.append(&mut source.again);
        source.again = refused.lines;
        if done > 0 {
            self.attempts.succeeded();
        }
        refused.why.map_or(Ok(()), |(line, trouble)| {
            self.attempts.failed(trouble).map_err(|failure| about(line, failure))
        })
    }
}

fn about(line: u64, failure: Failure) -> Failure {
    match failure {
        Failure::Failed(reason) => not_imported(line, &reason),
        failure => failure,
    }
}

/// The status that the node answers and why, if that is about this record only, as in a batch; none if the record has expired.
fn put(url: &Url, record: &LargeRecord, now_ms: u64) -> Result<Option<(u16, String)>, Trouble> {
    let Some(request) = record.put(now_ms) else { return Ok(None) };
    // A node that is not there at all is told at once.
    let response = request.send_in_time(url).map_err(Failure::from)?;
    let status = response.status;
    let reason = match status {
        201 => response.check_done().map(|()| String::new()),
        400 | 412 if response.is_of_type(TEXT) => response.text(),
        _ if is_worth_another(status, !record.conditions.is_empty()) => {
            return Err(Trouble::refused(response));
        }
        _ => return Err(Failure::refused(response).into()),
    };
    Ok(reason.map(|reason| Some((status, reason))).map_err(Failure::from)?)
}
