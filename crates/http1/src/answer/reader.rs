use super::head::{self, Head, Length, parse_digits};
use super::{Asked, CHUNK_LINE_BYTES_MAX, HEAD_BYTES_MAX, INTERIM_MAX, Malformed};

/// One whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// From 200, or 101 after an upgrade.
    pub status: u16,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
}

/// What the bytes say next. The events of an answer: `Interim* Head (Body* | (Body* ChunkEnd)*) End`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// More bytes are needed.
    More,
    /// The head of an interim answer (100 to 199): the final one follows.
    Interim(Head<&'a [u8]>),
    /// The head of the answer.
    Head(Head<&'a [u8]>),
    /// A piece of the body.
    Body(&'a [u8]),
    /// The chunk of the bytes since the last such event is complete.
    ChunkEnd,
    /// The answer is whole.
    End(Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Head,
    Sized(u64),
    UntilClosed,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
}

/// What [`Event`] is without what it borrows.
enum Step {
    More,
    Head { is_interim: bool, is_kept: bool, status: u16, keep_alive: bool, length: Length, bytes: usize },
    Body(usize),
    ChunkEnd,
    End(Answer),
}

/// Takes answers apart as their bytes arrive, in pieces of any size. It copies bytes only if a head or a line is cut
/// in two.
#[derive(Debug)]
pub struct Reader {
    state: State,
    /// The beginning of a head that is not complete; then the head, until the answer ends.
    head: Vec<u8>,
    /// Whether `head` is whole, and was given.
    has_given_head: bool,
    /// The beginning of a line of a chunked body whose end has not arrived.
    line: Vec<u8>,
    trailer_bytes: usize,
    interim: u32,
    answer: Answer,
}

impl Default for Reader {
    fn default() -> Self {
        Self {
            state: State::Head,
            head: Vec::new(),
            has_given_head: false,
            line: Vec::new(),
            trailer_bytes: 0,
            interim: 0,
            answer: Answer { status: 0, keep_alive: false },
        }
    }
}

impl Reader {
    /// Forgets an answer that broke off.
    pub fn reset(&mut self) {
        self.state = State::Head;
        self.forget_head();
        self.line.clear();
        self.interim = 0;
    }

    /// Takes bytes up to the next event: how many it took, and the event. Call it again with the rest until it wants
    /// [`Event::More`]: an answer can end without another byte. `asked` is of the answer that is being read.
    ///
    /// After an error, only [`Reader::reset`] makes sense.
    #[inline]
    pub fn next<'a>(&'a mut self, input: &'a [u8], asked: Asked) -> Result<(usize, Event<'a>), Malformed> {
        let (taken, step) = self.step(input, asked)?;
        let event = match step {
            Step::More => Event::More,
            Step::Head { is_interim, is_kept, status, keep_alive, length, bytes } => {
                let bytes = if is_kept { &self.head[..] } else { &input[..bytes] };
                let head = Head { status, keep_alive, length, bytes };
                if is_interim { Event::Interim(head) } else { Event::Head(head) }
            }
            Step::Body(bytes) => Event::Body(&input[taken - bytes..taken]),
            Step::ChunkEnd => Event::ChunkEnd,
            Step::End(answer) => Event::End(answer),
        };
        Ok((taken, event))
    }

    /// The server closed the connection: the answer, if that was its end.
    pub fn end_of_input(&mut self) -> Option<Answer> {
        (self.state == State::UntilClosed).then(|| self.end())
    }

    /// Whether a body is being read that comes in chunks.
    pub fn is_in_chunks(&self) -> bool {
        matches!(self.state, State::ChunkSize | State::Chunk(_) | State::ChunkEnd | State::Trailers)
    }

    #[inline]
    fn step(&mut self, input: &[u8], asked: Asked) -> Result<(usize, Step), Malformed> {
        let mut at = 0;
        loop {
            let rest = &input[at..];
            if rest.is_empty() && self.state != State::Sized(0) {
                return Ok((at, Step::More));
            }
            let (taken, step) = match self.state {
                State::Head => self.take_head(rest, asked)?,
                State::Sized(0) => (0, Some(Step::End(self.end()))),
                State::Sized(left) => self.take_body(rest, left, State::Sized),
                State::Chunk(left) => self.take_body(rest, left, |left| match left {
                    0 => State::ChunkEnd,
                    left => State::Chunk(left),
                }),
                State::UntilClosed => (rest.len(), Some(Step::Body(rest.len()))),
                State::ChunkSize | State::ChunkEnd | State::Trailers => self.take_line(rest)?,
            };
            at += taken;
            if let Some(step) = step {
                return Ok((at, step));
            }
        }
    }

    fn end(&mut self) -> Answer {
        self.state = State::Head;
        self.forget_head();
        self.interim = 0;
        self.answer
    }

    fn forget_head(&mut self) {
        self.head.clear();
        self.has_given_head = false;
    }

    fn take_body(&mut self, rest: &[u8], left: u64, next: fn(u64) -> State) -> (usize, Option<Step>) {
        let taken = (rest.len() as u64).min(left);
        self.state = next(left - taken);
        (taken as usize, Some(Step::Body(taken as usize)))
    }

    #[inline]
    fn take_head(&mut self, rest: &[u8], asked: Asked) -> Result<(usize, Option<Step>), Malformed> {
        if self.has_given_head {
            self.forget_head(); // It was an interim one.
        }
        let before = self.head.len();
        let is_kept = before > 0;
        let bytes = if is_kept {
            let room = HEAD_BYTES_MAX - before;
            self.head.extend_from_slice(&rest[..rest.len().min(room)]);
            // Parsed again for each line at most, not for each byte: a head of many lines is refused.
            if self.head.len() < HEAD_BYTES_MAX && !self.head[before..].contains(&b'\n') {
                return Ok((rest.len(), None));
            }
            &self.head[..]
        } else {
            rest
        };
        let Some(head) = head::parse(bytes, asked)? else {
            if !is_kept {
                self.head.extend_from_slice(rest);
            }
            return Ok((rest.len(), None));
        };
        let Head { status, keep_alive, length, bytes } = head;
        let bytes = bytes.len();
        let is_interim = status < 200 && status != 101;
        self.head.truncate(bytes);
        self.has_given_head = is_kept;
        if is_interim {
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(Malformed::Interim);
            }
        } else {
            self.answer = Answer { status, keep_alive };
            self.begin_body(length);
        }
        let step = Step::Head { is_interim, is_kept, status, keep_alive, length, bytes };
        Ok((bytes - before, Some(step)))
    }

    fn begin_body(&mut self, length: Length) {
        self.state = match length {
            Length::Known(bytes) => State::Sized(bytes),
            Length::Chunked => State::ChunkSize,
            Length::UntilClosed => State::UntilClosed,
        };
        self.trailer_bytes = 0;
    }

    /// A line between the bytes of chunks.
    #[inline(never)]
    fn take_line(&mut self, rest: &[u8]) -> Result<(usize, Option<Step>), Malformed> {
        let (bytes_max, error) = match self.state {
            State::Trailers => (HEAD_BYTES_MAX - self.trailer_bytes, Malformed::HeadTooLong),
            _ => (CHUNK_LINE_BYTES_MAX, Malformed::Chunk),
        };
        let newline = rest.iter().take(bytes_max).position(|byte| *byte == b'\n');
        let taken = newline.map_or(rest.len(), |newline| newline + 1);
        if self.line.len() + taken > bytes_max {
            return Err(error);
        }
        if newline.is_some() && self.line.is_empty() {
            return Ok((taken, self.line(&rest[..taken])?));
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(&rest[..taken]);
        let step = if newline.is_some() {
            let step = self.line(&line)?;
            line.clear();
            step
        } else {
            None
        };
        self.line = line;
        Ok((taken, step))
    }

    /// One whole line, its end included.
    fn line(&mut self, line: &[u8]) -> Result<Option<Step>, Malformed> {
        let text = line.strip_suffix(b"\r\n").ok_or(Malformed::Chunk)?;
        match self.state {
            State::ChunkSize => {
                let digits = text.split(|byte| *byte == b';').next().unwrap_or_default();
                self.state = match parse_digits(digits.trim_ascii_end(), 16).ok_or(Malformed::Chunk)? {
                    0 => State::Trailers,
                    bytes => State::Chunk(bytes),
                };
                Ok(None)
            }
            State::ChunkEnd if text.is_empty() => {
                self.state = State::ChunkSize;
                Ok(Some(Step::ChunkEnd))
            }
            State::Trailers if text.is_empty() => Ok(Some(Step::End(self.end()))),
            State::Trailers => {
                self.trailer_bytes += line.len();
                Ok(None)
            }
            _ => Err(Malformed::Chunk),
        }
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
