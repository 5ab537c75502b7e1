use std::mem::MaybeUninit;

use bytes::{Buf, Bytes, BytesMut};
use http::{Method, Version};
use httparse::Status;
use memchr::memchr;

use super::asker::{Asker, Span, span};
use super::characters::is_of_host;
use super::target::Target;

/// How large the head of a request may be.
#[derive(Debug, Clone, Copy)]
pub struct HeadLimits {
    /// The request line, with its end.
    pub line_bytes_max: usize,
    /// The header fields, with their ends.
    pub fields_bytes_max: usize,
}

/// Why bytes are not a request. Nothing behind them can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// The request line or the header fields are over their limit.
    #[error("the head is too large")]
    TooLarge,
    /// The client stopped sending in the middle of the head.
    #[error("the head is incomplete")]
    Incomplete,
    /// A byte is not permitted at its place. Most often, a key was not encoded.
    #[error("{0}; expected HTTP/1.1{hint}", hint = encoding_hint(*.0))]
    Syntax(#[from] httparse::Error),
    /// The request target is not a URI.
    #[error("invalid request target, expected a path such as /v0/entity?id=a, with %23 for #")]
    Target,
    /// HTTP/1.1 needs exactly one valid `Host`, HTTP/1.0 at most one.
    #[error("{found} Host header fields or an invalid one, expected one")]
    Host {
        /// How many there are.
        found: usize,
    },
    /// `Content-Length` is not one number.
    #[error("invalid Content-Length, expected one number below 2^64")]
    Length,
    /// `Transfer-Encoding` is anything but `chunked`, or the version does not have it.
    #[error("invalid Transfer-Encoding, expected chunked and HTTP/1.1")]
    Coding,
    /// Both are there: two readers may take the body for different bytes.
    #[error("both Content-Length and Transfer-Encoding, expected one of them")]
    TwoLengths,
}

/// How a request announces the end of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyLength {
    /// Not at all: it has no body.
    Unsaid,
    /// After so many bytes, perhaps none.
    Known(u64),
    /// After the last of its chunks.
    Chunked,
}

/// The head of a request.
#[derive(Debug, Clone)]
pub struct Request {
    /// What to do.
    pub method: Method,
    /// HTTP/1.1 or HTTP/1.0.
    pub version: Version,
    /// Where the body ends.
    pub body: BodyLength,
    /// Whether the client wants to go on after the answer.
    pub keeps_alive: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expects_continue: bool,
    /// Whether there is an `If-Match` or an `If-None-Match`.
    pub may_be_conditional: bool,
    target: Target,
    asker: Asker,
    /// The head as it came, and the offset of the header fields.
    head: Bytes,
    line_bytes: u32,
}

// It is moved several times, which up to this size needs no call of `memcpy`.
const _: () = assert!(size_of::<Request>() <= 128, "a request is small");

impl Request {
    /// The path and the query, with what is between them; in UTF-8.
    pub fn path_and_query(&self) -> &[u8] {
        self.target.path_and_query(&self.head)
    }

    /// The path; in UTF-8.
    pub fn path(&self) -> &[u8] {
        self.target.path(&self.head)
    }

    /// The query, which is empty if there is none; in UTF-8.
    pub fn query(&self) -> &[u8] {
        self.target.query(&self.head)
    }

    /// The query, for who needs no more of the request.
    pub fn into_query(self) -> Bytes {
        self.target.into_query(self.head)
    }

    /// Who is asked: what the target names, if it does (RFC 9112, 3.2.2), or else the value of `Host`; empty if there is none.
    pub fn host(&self) -> &[u8] {
        self.target.authority().unwrap_or_else(|| self.part(self.asker.host))
    }

    /// The value of `Authorization`, if there is one; if there are several, it is empty.
    pub fn authorization(&self) -> Option<&[u8]> {
        self.asker.authorization.map(|span| self.part(span))
    }

    /// Whether there is an `Origin` or a `Sec-Fetch-Site`, which browsers send.
    pub fn may_be_of_a_page(&self) -> bool {
        self.asker.may_be_page
    }

    /// The value of `traceparent`, if there is exactly one.
    pub fn traceparent(&self) -> Option<&[u8]> {
        if !self.asker.may_be_traced {
            return None;
        }
        let mut values = self.fields("traceparent");
        values.next().filter(|_| values.next().is_none())
    }

    fn part(&self, (start, end): Span) -> &[u8] {
        &self.head[start as usize..end as usize]
    }

    /// The values of the header fields of this name, in their order.
    pub fn fields<'r>(&'r self, name: &'r str) -> impl Iterator<Item = &'r [u8]> {
        self.head[self.line_bytes as usize..].split(|&byte| byte == b'\n').filter_map(move |line| {
            let colon = memchr(b':', line)?;
            line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
        })
    }
}

/// Header fields that fit on the stack: what nearly all clients need.
const FEW_FIELDS: usize = 64;
/// The shortest field is a name, a colon and a line feed.
const FIELD_BYTES_MIN: usize = 3;
/// An incomplete head that is longer than this is parsed again only after it grew by as much, or ended.
const LOOK_AGAIN_BYTES: usize = 1 << 10;

/// Takes the next head off the input; `None` if it is not complete. `looked_bytes` is how much of it was parsed before without
/// finding its end.
///
/// Bytes beyond the limits are not looked at, so the outcome does not depend on how the bytes were cut.
pub(crate) fn take_request(
    input: &mut BytesMut,
    looked_bytes: &mut usize,
    limits: HeadLimits,
    has_ended: bool,
) -> Result<Option<Request>, BadRequest> {
    if *looked_bytes == 0 && !begins(input) {
        return Ok(None);
    }
    if *looked_bytes > 0 && !has_ended && !is_worth_a_look(input, *looked_bytes) {
        return Ok(None);
    }
    let line_bytes = memchr(b'\n', &input[..input.len().min(limits.line_bytes_max)]).map(|end| end + 1);
    let bytes_max = match line_bytes {
        // With the empty line at the end.
        Some(line_bytes) => line_bytes + limits.fields_bytes_max + 2,
        None => limits.line_bytes_max,
    };
    let Some(head) = parse(&input[..input.len().min(bytes_max)], limits)? else {
        if input.len() >= bytes_max {
            return Err(BadRequest::TooLarge);
        }
        *looked_bytes = input.len();
        return Ok(None);
    };
    *looked_bytes = 0;
    let bytes = input.split_to(head.bytes).freeze();
    let target = Target::of(&bytes, head.target).ok_or(BadRequest::Target)?;
    let Facts { version, body, keeps_alive, expects_continue, may_be_conditional, asker } = head.facts;
    Ok(Some(Request {
        method: head.method,
        version,
        body,
        keeps_alive,
        expects_continue,
        may_be_conditional,
        target,
        asker,
        // Without an end of the line, it would not be complete.
        line_bytes: line_bytes.unwrap_or(bytes.len()) as u32,
        head: bytes,
    }))
}

/// Whether a head has begun to arrive. RFC 9112, 2.2: empty lines before it are no part of it.
fn begins(input: &mut BytesMut) -> bool {
    let mut rest = input.as_ref();
    while let Some(behind) = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")) {
        rest = behind;
    }
    // Half an end of a line is not known to be more than that.
    let has_begun = !matches!(rest, b"" | b"\r");
    let empty_bytes = input.len() - rest.len();
    if empty_bytes > 0 {
        input.advance(empty_bytes);
    }
    has_begun
}

fn is_worth_a_look(input: &[u8], looked_bytes: usize) -> bool {
    let arrived_bytes = input.len() - looked_bytes;
    input.len() < LOOK_AGAIN_BYTES || arrived_bytes >= LOOK_AGAIN_BYTES || {
        let recent = &input[looked_bytes.saturating_sub(3)..];
        memchr::memmem::find(recent, b"\n\r\n").is_some() || memchr::memmem::find(recent, b"\n\n").is_some()
    }
}

/// A head, by its places in the bytes.
struct Parsed {
    method: Method,
    target: std::ops::Range<usize>,
    bytes: usize,
    facts: Facts,
}

fn parse(bytes: &[u8], limits: HeadLimits) -> Result<Option<Parsed>, BadRequest> {
    let mut few = [const { MaybeUninit::uninit() }; FEW_FIELDS];
    match parse_into(bytes, &mut few) {
        Err(BadRequest::Syntax(httparse::Error::TooManyHeaders)) => {
            let fields_max = limits.fields_bytes_max / FIELD_BYTES_MIN + 1;
            parse_into(bytes, &mut vec![MaybeUninit::uninit(); fields_max])
        }
        parsed => parsed,
    }
}

fn parse_into<'b>(
    bytes: &'b [u8],
    fields: &mut [MaybeUninit<httparse::Header<'b>>],
) -> Result<Option<Parsed>, BadRequest> {
    let mut request = httparse::Request::new(&mut []);
    let Status::Complete(head_bytes) = request.parse_with_uninit_headers(bytes, fields)? else {
        return Ok(None);
    };
    let (Some(method), Some(path), Some(version)) = (request.method, request.path, request.version) else {
        return Err(httparse::Error::Token.into());
    };
    let version = if version == 1 { Version::HTTP_11 } else { Version::HTTP_10 };
    let facts = Facts::of(version, request.headers, bytes)?;
    let start = path.as_ptr().addr() - bytes.as_ptr().addr();
    Ok(Some(Parsed {
        method: Method::from_bytes(method.as_bytes()).map_err(|_| httparse::Error::Token)?,
        target: start..start + path.len(),
        bytes: head_bytes,
        facts,
    }))
}

/// What the header fields say about the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Facts {
    version: Version,
    body: BodyLength,
    keeps_alive: bool,
    expects_continue: bool,
    may_be_conditional: bool,
    asker: Asker,
}

impl Facts {
    fn of(version: Version, fields: &[httparse::Header<'_>], head: &[u8]) -> Result<Facts, BadRequest> {
        let is_new = version == Version::HTTP_11;
        let (mut hosts, mut is_host_valid, mut length, mut codings) = (0, true, None, 0);
        let (mut says_close, mut says_keep_alive, mut expects_continue) = (false, false, false);
        let (mut may_be_conditional, mut asker) = (false, Asker::default());
        for field in fields {
            let (name, value) = (field.name, field.value);
            // The length first: few fields have one of these.
            match name.len() {
                4 if name.eq_ignore_ascii_case("host") => {
                    hosts += 1;
                    asker.host = span(head, value);
                    is_host_valid &= value.iter().all(|&byte| is_of_host(byte));
                }
                6 if name.eq_ignore_ascii_case("expect") => {
                    // RFC 9110, 10.1.1: HTTP/1.0 does not have it.
                    expects_continue |= is_new && value.eq_ignore_ascii_case(b"100-continue");
                }
                8 if name.eq_ignore_ascii_case("if-match") => may_be_conditional = true,
                13 if name.eq_ignore_ascii_case("if-none-match") => may_be_conditional = true,
                10 if name.eq_ignore_ascii_case("connection") => {
                    for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                        says_close |= option.eq_ignore_ascii_case(b"close");
                        says_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    }
                }
                14 if name.eq_ignore_ascii_case("content-length") => {
                    // Twice the same is refused, too: who sends that did not mean to.
                    length =
                        if length.is_none() { Some(number(value)?) } else { return Err(BadRequest::Length) };
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    codings += 1;
                    if codings > 1 || !is_new || !value.eq_ignore_ascii_case(b"chunked") {
                        return Err(BadRequest::Coding);
                    }
                }
                _ => asker.note(head, field),
            }
        }
        if hosts > 1 || !is_host_valid || (is_new && hosts == 0) {
            return Err(BadRequest::Host { found: hosts });
        }
        let body = match (length, codings) {
            (None, 0) => BodyLength::Unsaid,
            (Some(bytes), 0) => BodyLength::Known(bytes),
            (None, _) => BodyLength::Chunked,
            (Some(_), _) => return Err(BadRequest::TwoLengths),
        };
        let keeps_alive = !says_close && (is_new || says_keep_alive);
        Ok(Facts { version, body, keeps_alive, expects_continue, may_be_conditional, asker })
    }
}

/// How a target is written that may have caused an error.
const fn encoding_hint(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::Token | httparse::Error::Version => {
            ", where a space in a key is %20, and other bytes likewise"
        }
        _ => "",
    }
}

fn number(value: &[u8]) -> Result<u64, BadRequest> {
    let digits = value.iter().try_fold(None, |number: Option<u64>, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        Some(Some(number.unwrap_or(0).checked_mul(10)?.checked_add(digit)?))
    });
    digits.flatten().ok_or(BadRequest::Length)
}

#[cfg(test)]
#[path = "head_tests.rs"]
mod tests;
