use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use ladoga_http1::StatusCode;
use ladoga_http1::server::{ReplyHead, ReplyLength};
use ladoga_runtime::Permit;
use ladoga_server::Connection;
use ladoga_service::{Error, KeyValue, LargeValue};

use super::super::answered::tell_answered;
use super::operation::{LineBegun, LineCall};
use super::window::{Subject, Window};
use crate::connection::{Link, StreamError, flush_unless_displaced, next_piece, wait_for_client};
use crate::http::{
    BatchOperation, CutLine, Framing, LINE_BYTES_MAX, LargeLine, LineAnswer, LineCutter, NDJSON, Refusal,
};

/// Answers that wait to be sent. While the client does not take them, no further line begins and nothing more is read.
const ANSWERS_BYTES_MAX: usize = 64 << 10;
/// Lines that begin before other connections have their turn.
const LINES_A_TURN: u32 = 64;
/// What stays allocated for a line of an answer.
const LINE_BYTES_KEPT: usize = 64 << 10;

/// A batch whose lines are served as they come. It answers while it reads, and keeps in memory the lines that are served, one that
/// has begun to arrive, and the answers that are about to be sent.
pub(super) struct BatchStream<K: KeyValue> {
    lines: LineCall<K>,
    link: Rc<Link>,
    framing: Framing,
    permit: Permit,
    cutter: LineCutter,
    window: Window,
    /// The next line, if it waits for another one of its key.
    held: Option<BatchOperation>,
    input: BatchInput,
    /// Whether the time of the client counts: there is nothing to do before more has arrived.
    is_waiting_for_body: bool,
    has_begun: bool,
    /// A line of the answer that is being made, and as it is sent.
    line: Vec<u8>,
    sent: Vec<u8>,
}

/// What is to come of the body.
enum BatchInput {
    Arriving,
    Over,
    /// Nothing more is read, for this reason.
    Cut(Box<Refusal>),
}

/// Where the work of a batch is interrupted.
enum Interrupted {
    /// This answer, whose value is not in memory, comes next.
    Large(LineAnswer, LargeValue),
    Over,
}

/// What comes next in the body.
enum NextLine {
    Operation(BatchOperation),
    Refused(LineAnswer),
    Blank,
    /// Nothing now.
    None,
}

impl<K: KeyValue> BatchStream<K> {
    pub(super) fn new(
        lines: LineCall<K>,
        link: Rc<Link>,
        framing: Framing,
        permit: Permit,
    ) -> BatchStream<K> {
        BatchStream {
            lines,
            link,
            framing,
            permit,
            cutter: LineCutter::new(LINE_BYTES_MAX),
            window: Window::new(),
            held: None,
            input: BatchInput::Arriving,
            is_waiting_for_body: true,
            has_begun: false,
            line: Vec::new(),
            sent: Vec::new(),
        }
    }

    /// Serves all lines.
    pub(super) async fn run(mut self) -> Result<(), StreamError> {
        self.link.body_begins_in_pieces();
        let link = Rc::clone(&self.link);
        // Nothing yet: what the window has is counted beside it, until the end.
        let _writing = link.unread.hold(0);
        while let Interrupted::Large(answer, value) = poll_fn(|context| self.poll_lines(context)).await? {
            self.write_large(&answer, value).await?;
        }
        self.finish();
        Ok(())
    }

    fn poll_lines(&mut self, context: &mut Context<'_>) -> Poll<Result<Interrupted, StreamError>> {
        if let Poll::Ready(displaced) = self.permit.poll_displaced(context) {
            return Poll::Ready(Err(displaced.into()));
        }
        self.window.advance_counted(&self.link, context);
        for _ in 0..LINES_A_TURN {
            if let Some((answer, large)) = self.write_answers() {
                self.pause_body();
                return Poll::Ready(Ok(Interrupted::Large(answer, large)));
            }
            if self.is_behind() {
                if self.link.poll_flush(context)?.is_pending() {
                    self.pause_body();
                    wait_for_client(&self.permit, self.link.take_drained());
                    return Poll::Pending;
                }
                continue;
            }
            if !self.begin_next(context) {
                return self.poll_end(context);
            }
        }
        self.pause_body();
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// No line can begin now.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<Interrupted, StreamError>> {
        if self.window.is_empty() && !matches!(self.input, BatchInput::Arriving) {
            return Poll::Ready(Ok(Interrupted::Over));
        }
        let is_flushed = self.link.poll_flush(context)?.is_ready();
        if self.window.is_empty() || !is_flushed {
            wait_for_client(&self.permit, self.link.take_drained());
        } else {
            self.permit.rests();
            // A client that waits for an answer before it goes on is not slow.
            self.pause_body();
        }
        Poll::Pending
    }

    /// Begins a line, or finds that it need not be; false if that is not possible now.
    fn begin_next(&mut self, context: &mut Context<'_>) -> bool {
        if !self.window.has_room() {
            self.pause_body();
            return false;
        }
        let operation = match self.held.take() {
            Some(operation) => operation,
            None => match self.next_line(context) {
                NextLine::Operation(operation) => {
                    self.note_arrived();
                    operation
                }
                NextLine::Refused(answer) => {
                    self.window.push(answer);
                    return true;
                }
                NextLine::Blank => return true,
                NextLine::None => return false,
            },
        };
        let subject = Subject::of(&operation);
        if !self.window.admits(subject) {
            self.held = Some(operation);
            self.pause_body();
            return false;
        }
        match self.lines.begin(operation) {
            LineBegun::Served(answer) => self.window.push(answer),
            LineBegun::Serving(serving) => self.window.begin(subject, serving, context),
        }
        true
    }

    /// A line has arrived. Up to the first one, the client was waited for.
    fn note_arrived(&self) {
        if !self.has_begun
            && self.window.is_empty()
            && let Some(request) = self.link.asked.waiting()
        {
            let now_ns = self.lines.door.core.clock.monotonic_ns();
            let total_ns = now_ns.saturating_sub(request.started_ns);
            self.link.asked.waited(|waits| waits.note_rest_as_body(total_ns));
        }
    }

    fn next_line(&mut self, context: &mut Context<'_>) -> NextLine {
        loop {
            if let Some(line) = self.cutter.next_line() {
                return NextLine::of(line);
            }
            match self.input {
                BatchInput::Arriving => {
                    if !self.poll_input(context) {
                        return NextLine::None;
                    }
                }
                BatchInput::Over => return self.cutter.last_line().map_or(NextLine::None, NextLine::of),
                BatchInput::Cut(_) => return NextLine::None,
            }
        }
    }

    /// Takes what has arrived of the body; false if that is nothing.
    fn poll_input(&mut self, context: &mut Context<'_>) -> bool {
        // What has arrived by now is carried out, and nothing more.
        if self.is_draining() {
            self.input = BatchInput::Cut(Box::new(Error::Draining.into()));
            return true;
        }
        self.resume_body();
        match self.link.poll_piece(context) {
            Poll::Pending => return false,
            Poll::Ready(Ok(Some(piece))) => self.take_piece(piece),
            Poll::Ready(Ok(None)) => {
                self.is_waiting_for_body = false;
                self.input = BatchInput::Over;
            }
            Poll::Ready(Err(error)) => {
                let reason = format_args!(
                    "the body is incomplete: {error}; every whole line before this was carried out, and nothing of what follows it"
                );
                self.input = BatchInput::Cut(Box::new(Refusal::bad_request(reason)));
            }
        }
        true
    }

    fn take_piece(&mut self, piece: Bytes) {
        self.permit.moved(piece.len() as u64);
        self.cutter.push(piece);
    }

    fn is_draining(&self) -> bool {
        self.lines.door.core.is_draining() && !self.link.is_late()
    }

    /// The client is not waited for: the node has something to do first, or the client does not take its answers.
    fn pause_body(&mut self) {
        if std::mem::replace(&mut self.is_waiting_for_body, false) {
            self.link.body_pauses();
        }
    }

    fn resume_body(&mut self) {
        if !std::mem::replace(&mut self.is_waiting_for_body, true) {
            self.link.body_resumes();
        }
    }

    fn is_behind(&self) -> bool {
        self.link.http().unsent().len() > ANSWERS_BYTES_MAX
    }

    /// Writes the answers that are next, up to one whose value is not in memory.
    fn write_answers(&mut self) -> Option<(LineAnswer, LargeValue)> {
        while !self.is_behind() {
            let mut answer = self.window.take_first()?;
            if let Some(large) = answer.take_large() {
                return Some((answer, large));
            }
            self.write(&answer);
        }
        None
    }

    fn write(&mut self, answer: &LineAnswer) {
        self.begin_answer();
        answer.write(&mut self.line);
        self.framing.whole(&mut self.sent, &self.line);
        // What is in it would stay.
        self.line.clear();
        self.line.shrink_to(LINE_BYTES_KEPT);
        self.send();
    }

    fn send(&mut self) {
        self.link.http().send(&self.sent);
        self.link.sent(self.sent.len() as u64);
        self.permit.moved(self.link.uncounted(self.sent.len() as u64));
        self.sent.clear();
        self.sent.shrink_to(LINE_BYTES_KEPT);
    }

    /// Writes the head of the answer, once there is something to be said.
    fn begin_answer(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        let is_last = self.is_draining() || matches!(self.input, BatchInput::Cut(_));
        if let Some(request) = self.link.asked.waiting() {
            tell_answered(&self.lines.door, &self.link, request, (StatusCode::OK, None), false);
        }
        let date = self.lines.door.core.date();
        let fields = [("content-type", NDJSON.as_bytes())];
        let head =
            ReplyHead { status: StatusCode::OK, fields: &fields, length: ReplyLength::Unknown, date: &date };
        self.link.http().begin_answer_early(&head, is_last);
    }

    /// Writes an answer with a value that is read piece by piece, with one piece read ahead. Lines that have begun go on, however slowly
    /// the client takes it: they may have what others wait for.
    async fn write_large(&mut self, answer: &LineAnswer, value: LargeValue) -> Result<(), StreamError> {
        // Up to here, what fails is an answer; later it breaks the connection.
        let mut piece = match self.window.advance_until(&self.link, value.pieces.next()).await {
            Ok(piece) => piece,
            Err(error) => {
                self.write(&Refusal::from(error).into());
                return Ok(());
            }
        };
        self.begin_answer();
        let mut line = LargeLine::begin(self.framing, answer, value.bytes, &mut self.sent);
        while let Some((bytes, rest)) = piece {
            let next = next_piece(rest, self.link.limits());
            line.piece(&bytes, &mut self.sent);
            drop(bytes);
            self.send();
            let flushed = flush_unless_displaced(&self.link, &self.permit);
            self.window.advance_until(&self.link, flushed).await?;
            piece = self.window.advance_until(&self.link, next).await?;
        }
        line.end(&mut self.sent);
        self.send();
        Ok(())
    }

    /// Every line is answered. Says why not all were read, if that is so, and ends the answer.
    fn finish(mut self) {
        self.begin_answer();
        if let BatchInput::Cut(refusal) = std::mem::replace(&mut self.input, BatchInput::Over) {
            self.write(&(*refusal).into());
        }
        self.framing.last(&mut self.sent);
        self.send();
        self.link.http().end_early_answer();
    }
}

impl NextLine {
    fn of(line: CutLine) -> NextLine {
        let line = match line {
            CutLine::Whole(line) => line,
            CutLine::TooLong => {
                let reason = format_args!(
                    "the line is longer than {LINE_BYTES_MAX} bytes; PUT a value of this size by itself"
                );
                return NextLine::Refused(Refusal::batch_too_large(reason).into());
            }
        };
        if line.trim_ascii().is_empty() {
            return NextLine::Blank;
        }
        match BatchOperation::parse(&line) {
            Ok(operation) => NextLine::Operation(operation),
            Err(error) => NextLine::Refused(Refusal::bad_request(error).into()),
        }
    }
}
