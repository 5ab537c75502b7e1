use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr2};

use crate::inline;
use crate::number::parse_integer;
use crate::request::{Places, Request};

/// The longest line: that of an inline request, or of a count or length.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The first byte of a TLS handshake (RFC 8446, 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// What bounds a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParserLimits {
    /// How many arguments it may have.
    pub arguments_max: usize,
    /// How long each of them may be.
    pub argument_bytes_max: u64,
    /// From which length on an argument can be taken out piece by piece.
    pub large_bytes_min: u64,
    /// How much of it may have to be in one piece.
    pub request_bytes_max: usize,
    /// Whether it comes from a client that has not said who it is, and so may have only as much as that takes.
    pub is_of_stranger: bool,
}

/// How many arguments a request of a stranger may have, and how long each may be: as much as Redis lets them have.
const STRANGER_ARGUMENTS_MAX: i64 = 10;
const STRANGER_ARGUMENT_BYTES_MAX: u64 = 16 << 10;

/// Bytes that are no request. Nothing that follows is understood. Where Redis has words for it, each says it in these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// A line that does not end.
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// A zero in a line. No client means one, and what it stands in is no line: for Redis, such a line has no end.
    #[error("Protocol error: zero byte in inline request")]
    ZeroByte,
    /// The beginning of TLS, in which a stranger may have hidden lines.
    #[error("Protocol error: expected a request of Redis, got a TLS handshake; this port does not speak TLS")]
    Tls,
    /// A quote that does not end, or goes on behind its end.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// A count of arguments that does not end.
    #[error("Protocol error: too big mbulk count string")]
    CountTooBig,
    /// A count of arguments that is none, or too high.
    #[error("Protocol error: invalid multibulk length")]
    Count,
    /// More arguments than a stranger may have.
    #[error("Protocol error: unauthenticated multibulk length")]
    StrangersCount,
    /// A length that does not end.
    #[error("Protocol error: too big bulk count string")]
    LengthTooBig,
    /// Something else in the place of an argument.
    #[error("Protocol error: expected '$', got '{}'", printable(*.0))]
    NoArgument(u8),
    /// A length that is none, or too high.
    #[error("Protocol error: invalid bulk length")]
    Length,
    /// A longer argument than a stranger may have.
    #[error("Protocol error: unauthenticated bulk length")]
    StrangersLength,
    /// Arguments that are too long together.
    #[error("Protocol error: too big request")]
    TooBig,
}

/// A byte as an error can have it, which is one line.
fn printable(byte: u8) -> char {
    if matches!(byte, b'\r' | b'\n') { ' ' } else { char::from(byte) }
}

/// What the bytes that have arrived come to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// More have to arrive: those of the request in turn are so many together, at least.
    Incomplete {
        /// From its first byte on.
        bytes: usize,
    },
    /// A request.
    Request(Request),
    /// The next argument is so long that it should not be held: [`Parser::stream`] takes it out, [`Parser::hold`] does not.
    Large {
        /// How long it is.
        bytes: u64,
    },
}

/// A piece of an argument that is taken out.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// These bytes are next.
    Bytes(Bytes),
    /// It is over.
    End,
    /// More have to arrive.
    Incomplete,
}

/// Cuts requests out of what arrives. Each byte is looked at once, however the bytes are cut.
///
/// Call protocol: `(next | hold | stream next_piece*)*`, with the same buffer, which only grows at its end meanwhile.
#[derive(Debug)]
pub struct Parser {
    limits: ParserLimits,
    /// Arguments before one that was taken out, and that one, empty.
    before: Vec<Bytes>,
    places: Places,
    /// How many arguments the request in turn still lacks; none if none has begun.
    missing: Option<usize>,
    /// How much of the buffer is understood.
    position: usize,
    /// How much behind that was looked at for the end of a line in vain.
    looked_bytes: usize,
    /// The length of the next argument, if that is known, and whether it is to be held.
    argument: Option<(u64, bool)>,
    /// What is missing of an argument that is taken out, and of the end of its line.
    streamed: Option<(u64, u64)>,
}

impl Parser {
    /// Where nothing has arrived.
    pub fn new(limits: ParserLimits) -> Parser {
        Parser {
            limits,
            before: Vec::new(),
            places: Places::default(),
            missing: None,
            position: 0,
            looked_bytes: 0,
            argument: None,
            streamed: None,
        }
    }

    /// What bounds a request, from the next part of it on.
    pub const fn limits_mut(&mut self) -> &mut ParserLimits {
        &mut self.limits
    }

    /// Whether a request has begun, and is not complete.
    pub const fn is_within_request(&self) -> bool {
        self.missing.is_some()
    }

    /// The next request, if it is there. Empty ones are passed over.
    ///
    /// # Panics
    /// While an argument is taken out.
    pub fn next(&mut self, input: &mut BytesMut) -> Result<Step, ProtocolError> {
        assert!(self.streamed.is_none(), "all of an argument is taken out");
        loop {
            let Some(missing) = self.missing else {
                match input.first() {
                    None => return Ok(Step::Incomplete { bytes: 1 }),
                    Some(b'*') => match self.count(input)? {
                        None => return Ok(Step::Incomplete { bytes: input.len() + 1 }),
                        // Redis takes a negative count for none.
                        Some(0) => continue,
                        Some(count) => self.missing = Some(count),
                    },
                    Some(&TLS_HANDSHAKE) => return Err(ProtocolError::Tls),
                    Some(_) => match self.line(input)? {
                        None => return Ok(Step::Incomplete { bytes: input.len() + 1 }),
                        Some(request) if request.is_empty() => continue,
                        Some(request) => return Ok(Step::Request(request)),
                    },
                }
                continue;
            };
            if missing == 0 {
                return Ok(Step::Request(self.finish(input)));
            }
            if let Some(step) = self.argument(input)? {
                return Ok(step);
            }
        }
    }

    /// An argument of the request in turn that is complete.
    pub fn complete_argument<'i>(&'i self, input: &'i [u8], number: usize) -> Option<&'i [u8]> {
        if let Some(argument) = self.before.get(number) {
            return Some(argument);
        }
        let number = number - self.before.len();
        (number < self.places.len()).then(|| &input[self.places.range(number)])
    }

    /// How many arguments of the request in turn are complete, and how many it has.
    pub fn progress(&self) -> (usize, usize) {
        let complete = self.before.len() + self.places.len();
        (complete, complete + self.missing.unwrap_or(0))
    }

    /// The large argument is not taken out: it is awaited like any other.
    pub fn hold(&mut self) {
        if let Some((_, is_held)) = &mut self.argument {
            *is_held = true;
        }
    }

    /// The large argument is taken out by [`Parser::next_piece`]. In its request it is empty.
    ///
    /// # Panics
    /// If there is none.
    pub fn stream(&mut self, input: &mut BytesMut) {
        let (bytes, _) = self.argument.take().expect("a large argument is next");
        let frame = self.take_frame(input);
        let places = std::mem::take(&mut self.places);
        self.before.extend((0..places.len()).map(|number| frame.slice(places.range(number))));
        self.before.push(Bytes::new());
        self.missing = self.missing.map(|missing| missing - 1);
        self.streamed = Some((bytes, 2));
    }

    /// The next piece of the argument that is taken out.
    pub fn next_piece(&mut self, input: &mut BytesMut) -> Piece {
        let Some((bytes, end_bytes)) = &mut self.streamed else { return Piece::End };
        if *bytes > 0 {
            if input.is_empty() {
                return Piece::Incomplete;
            }
            let piece = input.split_to(input.len().min((*bytes).min(usize::MAX as u64) as usize)).freeze();
            *bytes -= piece.len() as u64;
            return Piece::Bytes(piece);
        }
        let passed = input.len().min(*end_bytes as usize);
        input.advance(passed);
        *end_bytes -= passed as u64;
        if *end_bytes > 0 {
            return Piece::Incomplete;
        }
        self.streamed = None;
        Piece::End
    }

    /// The count of arguments that the next line has.
    fn count(&mut self, input: &mut BytesMut) -> Result<Option<usize>, ProtocolError> {
        let Some(line) = self.header(input, ProtocolError::CountTooBig)? else { return Ok(None) };
        let count = parse_integer(&input[1..line.end]).ok_or(ProtocolError::Count)?;
        if count > self.limits.arguments_max as i64 {
            return Err(ProtocolError::Count);
        }
        if self.limits.is_of_stranger && count > STRANGER_ARGUMENTS_MAX {
            return Err(ProtocolError::StrangersCount);
        }
        input.advance(line.end + 2);
        Ok(Some(usize::try_from(count).unwrap_or(0)))
    }

    /// The next argument, or why it is not there.
    fn argument(&mut self, input: &[u8]) -> Result<Option<Step>, ProtocolError> {
        let (bytes, is_held) = match self.argument {
            Some(known) => known,
            None => {
                let Some(line) = self.header(input, ProtocolError::LengthTooBig)? else {
                    return Ok(Some(Step::Incomplete { bytes: input.len() + 1 }));
                };
                let known = (self.length(&input[line.clone()])?, false);
                self.position = line.end + 2;
                self.argument = Some(known);
                known
            }
        };
        if bytes >= self.limits.large_bytes_min && !is_held {
            return Ok(Some(Step::Large { bytes }));
        }
        let end = self.position as u64 + bytes + 2;
        if end > self.limits.request_bytes_max as u64 {
            return Err(ProtocolError::TooBig);
        }
        if (input.len() as u64) < end {
            return Ok(Some(Step::Incomplete { bytes: end as usize }));
        }
        self.places.push(self.position, bytes as usize);
        (self.position, self.argument) = (end as usize, None);
        self.missing = self.missing.map(|missing| missing - 1);
        Ok(None)
    }

    fn length(&self, line: &[u8]) -> Result<u64, ProtocolError> {
        let digits = match line {
            [b'$', digits @ ..] => digits,
            [other, ..] => return Err(ProtocolError::NoArgument(*other)),
            [] => return Err(ProtocolError::NoArgument(b'\r')),
        };
        let length = parse_integer(digits).and_then(|length| u64::try_from(length).ok());
        match length.filter(|&length| length <= self.limits.argument_bytes_max) {
            Some(length) if self.limits.is_of_stranger && length > STRANGER_ARGUMENT_BYTES_MAX => {
                Err(ProtocolError::StrangersLength)
            }
            length => length.ok_or(ProtocolError::Length),
        }
    }

    /// Where the next line of a header is, without its end, if that is there. Which byte follows the carriage return does not
    /// matter to Redis.
    fn header(
        &mut self,
        input: &[u8],
        too_big: ProtocolError,
    ) -> Result<Option<std::ops::Range<usize>>, ProtocolError> {
        let unseen = self.position + self.looked_bytes;
        match memchr(b'\r', &input[unseen..]) {
            // However the bytes are cut, a line is as long.
            Some(at) if self.looked_bytes + at > LINE_BYTES_MAX => Err(too_big),
            Some(at) if unseen + at + 1 < input.len() => {
                self.looked_bytes = 0;
                Ok(Some(self.position..unseen + at))
            }
            Some(at) => {
                self.looked_bytes += at;
                Ok(None)
            }
            None => {
                self.looked_bytes = input.len() - self.position;
                if self.looked_bytes > LINE_BYTES_MAX { Err(too_big) } else { Ok(None) }
            }
        }
    }

    /// A request on one line, which is empty for an empty line.
    fn line(&mut self, input: &mut BytesMut) -> Result<Option<Request>, ProtocolError> {
        let Some(at) = memchr2(b'\n', 0, &input[self.looked_bytes..]) else {
            self.looked_bytes = input.len();
            return if input.len() > LINE_BYTES_MAX { Err(ProtocolError::InlineTooBig) } else { Ok(None) };
        };
        let end = self.looked_bytes + at;
        if end > LINE_BYTES_MAX {
            return Err(ProtocolError::InlineTooBig);
        }
        if input[end] == 0 {
            return Err(ProtocolError::ZeroByte);
        }
        self.looked_bytes = 0;
        let line = input.split_to(end + 1);
        let line = &line[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split(line).map(Some).ok_or(ProtocolError::UnbalancedQuotes)
    }

    fn take_frame(&mut self, input: &mut BytesMut) -> Bytes {
        input.split_to(std::mem::take(&mut self.position)).freeze()
    }

    fn finish(&mut self, input: &mut BytesMut) -> Request {
        self.missing = None;
        let frame = self.take_frame(input);
        Request::new(std::mem::take(&mut self.before), frame, std::mem::take(&mut self.places))
    }
}
