use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Status};

use super::{Asked, HEAD_BYTES_MAX, HEADERS_MAX, Malformed};

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// After so many bytes.
    Known(u64),
    /// After its last chunk.
    Chunked,
    /// When the server closes the connection.
    UntilClosed,
}

/// The head of an answer: the status line and the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<B> {
    /// From 100 to 999.
    pub status: u16,
    /// Whether the connection may carry another request.
    pub keep_alive: bool,
    /// Of the body that follows.
    pub length: Length,
    /// As they came, the empty line included.
    pub bytes: B,
}

impl<B: AsRef<[u8]>> Head<B> {
    /// Names and trimmed values, in their order.
    pub fn headers(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let lines = self.bytes.as_ref().split(|byte| *byte == b'\n').skip(1);
        lines.filter_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            Some((&line[..colon], line[colon + 1..].trim_ascii()))
        })
    }

    /// The value of the first header of that name, in any case.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let mut headers = self.headers();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The same head, with bytes of its own.
    pub fn with_own_bytes(&self) -> Head<Vec<u8>> {
        let Self { status, keep_alive, length, bytes } = self;
        Head { status: *status, keep_alive: *keep_alive, length: *length, bytes: bytes.as_ref().to_vec() }
    }
}

/// The head at the start of `bytes`; `None` if its end is not there yet.
#[inline]
pub(super) fn parse(bytes: &[u8], asked: Asked) -> Result<Option<Head<&[u8]>>, Malformed> {
    if bytes.first().is_some_and(|byte| matches!(byte, b'\r' | b'\n')) {
        return Err(Malformed::Head(httparse::Error::Version)); // httparse would pass over empty lines.
    }
    let mut headers = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut []);
    let parsed =
        ParserConfig::default().parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
    let end = match parsed.map_err(Malformed::Head)? {
        Status::Complete(end) if end <= HEAD_BYTES_MAX => end,
        Status::Partial if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Status::Complete(_) | Status::Partial => return Err(Malformed::HeadTooLong),
    };
    let status = response.code.unwrap_or(0);
    if status < 100 {
        return Err(Malformed::Status(status));
    }
    let framing = Framing::of(response.headers, response.version == Some(1))?;
    let length = framing.length(status, asked)?;
    let keep_alive = framing.keep_alive && length != Length::UntilClosed;
    Ok(Some(Head { status, keep_alive, length, bytes: &bytes[..end] }))
}

/// The headers that tell the end of the answer.
struct Framing {
    length: Option<u64>,
    is_chunked: bool,
    keep_alive: bool,
}

impl Framing {
    #[inline]
    fn of(headers: &[Header<'_>], is_1_1: bool) -> Result<Self, Malformed> {
        let mut framing = Self { length: None, is_chunked: false, keep_alive: is_1_1 };
        let mut says_close = false;
        for Header { name, value } in headers {
            // Most headers are recognized by the length of their name.
            match name.len() {
                10 if name.eq_ignore_ascii_case("connection") => {
                    says_close |= has_token(value, "close");
                    framing.keep_alive |= has_token(value, "keep-alive");
                }
                14 if name.eq_ignore_ascii_case("content-length") => {
                    let length = parse_digits(value.trim_ascii(), 10).ok_or(Malformed::ContentLength)?;
                    if framing.length.is_some_and(|earlier| earlier != length) {
                        return Err(Malformed::ContentLength);
                    }
                    framing.length = Some(length);
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    let is_single = !framing.is_chunked && is_1_1;
                    if !is_single || !value.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                        return Err(Malformed::TransferEncoding);
                    }
                    framing.is_chunked = true;
                }
                _ => {}
            }
        }
        framing.keep_alive &= !says_close;
        Ok(framing)
    }

    #[inline]
    fn length(&self, status: u16, asked: Asked) -> Result<Length, Malformed> {
        match (status, asked) {
            (101, Asked::Upgrade) => Ok(Length::Known(0)),
            (101, _) => Err(Malformed::Upgrade),
            (100..200 | 204 | 304, _) | (_, Asked::Head) => Ok(Length::Known(0)),
            _ => match (self.is_chunked, self.length) {
                (true, Some(_)) => Err(Malformed::TransferEncoding),
                (true, None) => Ok(Length::Chunked),
                (false, Some(length)) => Ok(Length::Known(length)),
                (false, None) => Ok(Length::UntilClosed),
            },
        }
    }
}

/// Whether a comma-separated list has that token, in any case.
fn has_token(list: &[u8], token: &str) -> bool {
    list.split(|byte| *byte == b',').any(|word| word.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// Digits only, no sign, at least one.
#[inline]
pub(super) fn parse_digits(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = char::from(*byte).to_digit(radix)?;
        sum.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}
