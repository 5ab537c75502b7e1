use bytes::{Buf, Bytes, BytesMut};
use httparse::Status;
use memchr::{memchr, memchr_iter};

use super::head::BodyLength;

/// Why a body does not go on. Nothing behind it can be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// The client stopped sending before its end.
    #[error("end of the connection before the end of the body")]
    Incomplete,
    /// The size of a chunk is no number, or has more digits than there can be.
    #[error("invalid size of a chunk")]
    Size,
    /// A chunk extension or a trailer is malformed or over its limit.
    #[error("invalid or too many chunk extensions or trailers")]
    Extra,
    /// A chunk is longer than its size.
    #[error("a chunk is longer or shorter than its size")]
    End,
}

/// The next part of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes, at least one.
    Bytes(Bytes),
    /// Its end.
    End,
}

/// The limit of chunk extensions and trailers of a body; they are read and discarded.
const EXTRA_BYTES_MAX: usize = 16 << 10;
/// Trailers that a body may have.
const TRAILERS_MAX: usize = 64;
/// The limit of digits of a chunk's size.
const SIZE_DIGITS_MAX: usize = 16;
/// A body of up to this length is returned in one piece, once all of it has arrived.
pub(crate) const WHOLE_BYTES_MAX: u64 = 8 << 10;

/// What is left of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes are left.
    Known(u64),
    /// Chunks: what comes next, and how many bytes of extensions and trailers came so far.
    Chunked { next: Next, extra_bytes: usize },
}

/// The next part of a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The line with the size of a chunk.
    Size,
    /// So many bytes of a chunk's data.
    Data(u64),
    /// The line end behind one.
    DataEnd,
    /// Trailers, or the empty line at the end.
    Trailers,
    /// Nothing.
    Nothing,
}

impl Body {
    pub(crate) const NOTHING: Body = Body::Known(0);

    pub(crate) fn of(length: BodyLength) -> Body {
        match length {
            BodyLength::Unsaid => Body::NOTHING,
            BodyLength::Known(bytes) => Body::Known(bytes),
            BodyLength::Chunked => Body::Chunked { next: Next::Size, extra_bytes: 0 },
        }
    }

    pub(crate) fn is_over(self) -> bool {
        matches!(self, Body::Known(0) | Body::Chunked { next: Next::Nothing, .. })
    }

    /// How many bytes are left, if that is known.
    pub(crate) fn known_bytes(self) -> Option<u64> {
        match self {
            Body::Known(bytes) => Some(bytes),
            Body::Chunked { .. } => self.is_over().then_some(0),
        }
    }

    /// The next piece out of what has arrived; `None` if more has to arrive first.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Piece>, BadBody> {
        self.next_within(input, WHOLE_BYTES_MAX)
    }

    /// The same without waiting for the rest of a short body.
    pub(crate) fn next_arrived(&mut self, input: &mut BytesMut) -> Result<Option<Piece>, BadBody> {
        self.next_within(input, 0)
    }

    fn next_within(&mut self, input: &mut BytesMut, whole_bytes_max: u64) -> Result<Option<Piece>, BadBody> {
        match self {
            Body::Known(0) => Ok(Some(Piece::End)),
            Body::Known(left) => {
                let has_all = input.len() as u64 >= *left;
                if input.is_empty() || (*left <= whole_bytes_max && !has_all) {
                    return Ok(None);
                }
                Ok(Some(split(input, left)))
            }
            Body::Chunked { next, extra_bytes } => next_of_chunks(next, extra_bytes, input),
        }
    }
}

fn split(input: &mut BytesMut, left: &mut u64) -> Piece {
    let count = (*left).min(input.len() as u64);
    *left -= count;
    Piece::Bytes(input.split_to(count as usize).freeze())
}

fn next_of_chunks(
    next: &mut Next,
    extra_bytes: &mut usize,
    input: &mut BytesMut,
) -> Result<Option<Piece>, BadBody> {
    loop {
        *next = match next {
            Next::Size => match take_size(input, extra_bytes)? {
                Some(0) => Next::Trailers,
                Some(bytes) => Next::Data(bytes),
                None => return Ok(None),
            },
            Next::Data(0) => Next::DataEnd,
            Next::Data(_) if input.is_empty() => return Ok(None),
            Next::Data(left) => return Ok(Some(split(input, left))),
            Next::DataEnd => match input.as_ref() {
                [b'\r', b'\n', ..] => {
                    input.advance(2);
                    Next::Size
                }
                [] | [b'\r'] => return Ok(None),
                _ => return Err(BadBody::End),
            },
            Next::Trailers if !take_trailers(input, *extra_bytes)? => return Ok(None),
            Next::Trailers => Next::Nothing,
            Next::Nothing => return Ok(Some(Piece::End)),
        };
    }
}

/// Takes the line `SIZE[;EXTENSIONS]` off the input, once it is complete. An incomplete line is checked as far as it goes, so
/// that an invalid one is refused at once.
fn take_size(input: &mut BytesMut, extra_bytes: &mut usize) -> Result<Option<u64>, BadBody> {
    let digits = input.iter().take(SIZE_DIGITS_MAX + 1).take_while(|byte| byte.is_ascii_hexdigit()).count();
    let Some(behind) = input.get(digits) else {
        return if digits > SIZE_DIGITS_MAX { Err(BadBody::Size) } else { Ok(None) };
    };
    if digits == 0 || digits > SIZE_DIGITS_MAX || !matches!(behind, b'\r' | b';' | b' ' | b'\t') {
        return Err(BadBody::Size);
    }
    let bytes_max = EXTRA_BYTES_MAX - *extra_bytes + 2;
    let extension = &input[digits..input.len().min(digits + bytes_max)];
    let (line, is_whole) = match memchr(b'\r', extension) {
        Some(at) if extension.get(at + 1).is_some_and(|&byte| byte != b'\n') => return Err(BadBody::Extra),
        Some(at) => (&extension[..at], at + 1 < extension.len()),
        None => (extension, false),
    };
    check_extension(line, is_whole)?;
    if !is_whole {
        return if extension.len() == bytes_max { Err(BadBody::Extra) } else { Ok(None) };
    }
    let size = input[..digits].iter().fold(0, |size, &byte| {
        let digit = char::from(byte).to_digit(16).unwrap_or_default();
        size << 4 | u64::from(digit)
    });
    *extra_bytes += line.len();
    let line_bytes = digits + line.len() + 2;
    input.advance(line_bytes);
    Ok(Some(size))
}

/// Extensions begin with a semicolon, perhaps behind white space, and have no line feed and no other control characters.
fn check_extension(extension: &[u8], is_whole: bool) -> Result<(), BadBody> {
    let blanks = extension.iter().take_while(|&byte| matches!(byte, b' ' | b'\t')).count();
    let is_text = |byte: u8| byte == b'\t' || !byte.is_ascii_control();
    match &extension[blanks..] {
        [] if blanks == 0 || !is_whole => Ok(()),
        [b';', rest @ ..] if rest.iter().all(|&byte| is_text(byte)) => Ok(()),
        _ => Err(BadBody::Extra),
    }
}

/// Takes the trailers and the empty line after them off the input, once they are complete. Answers whether they were.
fn take_trailers(input: &mut BytesMut, extra_bytes: usize) -> Result<bool, BadBody> {
    let bytes_max = EXTRA_BYTES_MAX - extra_bytes + 2;
    let arrived = &input[..input.len().min(bytes_max)];
    let mut fields = [httparse::EMPTY_HEADER; TRAILERS_MAX];
    let parsed = httparse::parse_headers(arrived, &mut fields).map_err(|_| BadBody::Extra)?;
    let bytes = if let Status::Complete((bytes, _)) = parsed { bytes } else { arrived.len() };
    // As strict as for chunks: not every reader takes a line feed alone for the end of a line.
    if memchr_iter(b'\n', &arrived[..bytes]).any(|at| at == 0 || arrived[at - 1] != b'\r') {
        return Err(BadBody::Extra);
    }
    match parsed {
        Status::Complete(_) => {
            input.advance(bytes);
            Ok(true)
        }
        Status::Partial if bytes == bytes_max => Err(BadBody::Extra),
        Status::Partial => Ok(false),
    }
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
