use super::request::header_value;

/// Heads, single lines and trailers beyond this are no answer but an attack.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// As much of a body is kept for a script's `response`; what is longer than this is cut.
const CAPTURE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Whether the connection may carry another request.
    pub(crate) keep_alive: bool,
}

/// Bytes that are no HTTP/1.1 answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Headers and body of an answer, for scripts that want to see them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Captured {
    pub(crate) headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    StatusLine,
    Headers,
    Sized(u64),
    UntilClose,
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
}

/// Takes an answer apart as its bytes arrive, in pieces of any size. Allocates only where a line is cut in two, or
/// where the answer is captured.
#[derive(Debug)]
pub(crate) struct ResponseParser {
    state: State,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    /// Of the head so far, which has a bound.
    head_bytes: usize,
    status: u16,
    length: Option<u64>,
    chunked: bool,
    keep_alive: bool,
    captured: Option<Captured>,
}

impl ResponseParser {
    pub(crate) fn new(capture: bool) -> Self {
        Self {
            state: State::StatusLine,
            line: Vec::new(),
            head_bytes: 0,
            status: 0,
            length: None,
            chunked: false,
            keep_alive: true,
            captured: capture.then(Captured::default),
        }
    }

    /// Forgets an answer that broke off.
    pub(crate) fn reset(&mut self) {
        self.line.clear();
        self.begin();
    }

    fn begin(&mut self) {
        self.state = State::StatusLine;
        self.head_bytes = 0;
        self.length = None;
        self.chunked = false;
        self.keep_alive = true;
        if let Some(captured) = &mut self.captured {
            captured.headers.clear();
            captured.body.clear();
        }
    }

    /// What was captured of the answer that was completed last.
    pub(crate) const fn captured(&self) -> Option<&Captured> {
        self.captured.as_ref()
    }

    /// Takes bytes up to the end of one answer: how many it took, and the answer where it is whole.
    pub(crate) fn advance(
        &mut self,
        input: &[u8],
        is_head: bool,
    ) -> Result<(usize, Option<Answer>), Malformed> {
        let mut at = 0;
        while at < input.len() {
            let rest = &input[at..];
            let (taken, is_whole) = match self.state {
                State::Sized(left) => self.take_sized(rest, left),
                State::ChunkData(left) => self.take_chunk(rest, left),
                State::UntilClose => {
                    self.capture_body(rest);
                    (rest.len(), false)
                }
                _ => self.take_line(rest, is_head)?,
            };
            at += taken;
            if is_whole {
                return Ok((at, Some(self.whole())));
            }
        }
        Ok((at, None))
    }

    /// The peer closed: the answer where that was its end.
    pub(crate) fn end_of_input(&mut self) -> Option<Answer> {
        (self.state == State::UntilClose).then(|| self.whole())
    }

    fn whole(&mut self) -> Answer {
        let answer = Answer { status: self.status, keep_alive: self.keep_alive };
        self.state = State::StatusLine; // The rest is reset by the next status line: the capture is read until then.
        answer
    }

    fn take_sized(&mut self, rest: &[u8], left: u64) -> (usize, bool) {
        let taken = (rest.len() as u64).min(left);
        self.capture_body(&rest[..taken as usize]);
        self.state = State::Sized(left - taken);
        (taken as usize, taken == left)
    }

    fn take_chunk(&mut self, rest: &[u8], left: u64) -> (usize, bool) {
        let taken = (rest.len() as u64).min(left);
        self.capture_body(&rest[..taken as usize]);
        self.state = if taken == left { State::ChunkEnd } else { State::ChunkData(left - taken) };
        (taken as usize, false)
    }

    fn take_line(&mut self, rest: &[u8], is_head: bool) -> Result<(usize, bool), Malformed> {
        let Some(newline) = memchr::memchr(b'\n', rest) else {
            self.count_head(rest.len())?;
            self.line.extend_from_slice(rest);
            return Ok((rest.len(), false));
        };
        self.count_head(newline + 1)?;
        if self.line.is_empty() {
            return Ok((newline + 1, self.line(trim_cr(&rest[..newline]), is_head)?));
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(&rest[..newline]);
        let is_whole = self.line(trim_cr(&line), is_head)?;
        line.clear();
        self.line = line;
        Ok((newline + 1, is_whole))
    }

    fn count_head(&mut self, bytes: usize) -> Result<(), Malformed> {
        if self.state == State::StatusLine && self.line.is_empty() {
            self.begin();
        }
        self.head_bytes += bytes;
        if self.head_bytes > HEAD_BYTES_MAX { Err(Malformed) } else { Ok(()) }
    }

    /// One line without its end; true where the answer is whole with it.
    fn line(&mut self, line: &[u8], is_head: bool) -> Result<bool, Malformed> {
        match self.state {
            State::StatusLine => self.status_line(line).map(|()| false),
            State::Headers if line.is_empty() => self.end_of_head(is_head),
            State::Headers => self.header(line).map(|()| false),
            State::ChunkSize => self.chunk_size(line).map(|()| false),
            State::ChunkEnd if line.is_empty() => {
                self.state = State::ChunkSize;
                self.head_bytes = 0;
                Ok(false)
            }
            State::ChunkEnd => Err(Malformed),
            State::Trailers => Ok(line.is_empty()),
            State::Sized(_) | State::UntilClose | State::ChunkData(_) => unreachable!("these take no lines"),
        }
    }

    /// `HTTP/1.1 200 OK`
    fn status_line(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor, b' ', a, b, c, rest @ ..] = line else {
            return Err(Malformed);
        };
        let digits = [*a, *b, *c];
        if !digits.iter().all(u8::is_ascii_digit) || !matches!(rest, [] | [b' ', ..]) {
            return Err(Malformed);
        }
        self.status = digits.iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'));
        self.keep_alive = *minor != b'0';
        self.state = State::Headers;
        if self.status < 100 { Err(Malformed) } else { Ok(()) }
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Malformed> {
        // Most headers are told apart by their first letter alone.
        match line[0] | 0x20 {
            b'c' => self.length_or_connection(line)?,
            b't' => {
                if let Some(value) = header_value(line, b"transfer-encoding") {
                    self.chunked = ends_with_token(value, b"chunked");
                }
            }
            _ => {}
        }
        if self.captured.is_some() {
            self.capture_header(line)?;
        }
        Ok(())
    }

    fn length_or_connection(&mut self, line: &[u8]) -> Result<(), Malformed> {
        if let Some(value) = header_value(line, b"content-length") {
            let length = parse_digits(value, 10).ok_or(Malformed)?;
            if self.length.is_some_and(|earlier| earlier != length) {
                return Err(Malformed);
            }
            self.length = Some(length);
        } else if let Some(value) = header_value(line, b"connection") {
            if ends_with_token(value, b"close") {
                self.keep_alive = false;
            } else if ends_with_token(value, b"keep-alive") {
                self.keep_alive = true;
            }
        }
        Ok(())
    }

    fn end_of_head(&mut self, is_head: bool) -> Result<bool, Malformed> {
        if (100..200).contains(&self.status) && self.status != 101 {
            self.begin(); // An interim answer: the real one follows.
            return Ok(false);
        }
        if self.status == 101 {
            return Err(Malformed); // Nobody asked for another protocol.
        }
        if is_head || self.status == 204 || self.status == 304 {
            return Ok(true);
        }
        self.state = match (self.chunked, self.length) {
            (true, _) => State::ChunkSize,
            (false, Some(0)) => return Ok(true),
            (false, Some(length)) => State::Sized(length),
            (false, None) => {
                self.keep_alive = false;
                State::UntilClose
            }
        };
        self.head_bytes = 0;
        Ok(false)
    }

    fn chunk_size(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = parse_digits(digits.trim_ascii(), 16).ok_or(Malformed)?;
        self.head_bytes = 0;
        self.state = if size == 0 { State::Trailers } else { State::ChunkData(size) };
        Ok(())
    }

    fn capture_header(&mut self, line: &[u8]) -> Result<(), Malformed> {
        let colon = memchr::memchr(b':', line).ok_or(Malformed)?;
        if let Some(captured) = &mut self.captured {
            captured.headers.push((line[..colon].to_vec(), line[colon + 1..].trim_ascii().to_vec()));
        }
        Ok(())
    }

    fn capture_body(&mut self, bytes: &[u8]) {
        if let Some(captured) = &mut self.captured {
            let room = CAPTURE_BYTES_MAX - captured.body.len().min(CAPTURE_BYTES_MAX);
            captured.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
}

fn trim_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Whether the last element of a comma-separated list is that token, in any case.
fn ends_with_token(value: &[u8], token: &[u8]) -> bool {
    let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
    last.trim_ascii().eq_ignore_ascii_case(token)
}

/// Digits only, no sign, at least one.
fn parse_digits(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        sum.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
