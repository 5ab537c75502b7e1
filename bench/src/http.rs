//! As much of HTTP/1.1 as a load generator needs: whole answers with a length, out of a byte stream.

use std::io::{self, Read};

const READ_BYTES: usize = 64 * 1024;
const HEADERS_MAX: usize = 32;

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// Of the head itself, the empty line included.
    pub(crate) bytes: usize,
    pub(crate) body: Body,
    /// Whether the server closes the connection after it.
    pub(crate) close: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Bytes(usize),
    Chunked,
}

/// `None` where the head is not complete yet.
pub(crate) fn parse_head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let head_bytes = match response.parse(bytes) {
        Ok(httparse::Status::Complete(head_bytes)) => head_bytes,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(malformed(&format!("an answer is no HTTP: {error}"))),
    };
    let status = response.code.unwrap_or(0);
    let (mut body, mut close) = (Body::Bytes(0), false);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(|value| value.trim().parse().ok());
            body = Body::Bytes(length.ok_or_else(|| malformed("an answer's length is no number"))?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            body = Body::Chunked;
        } else if header.name.eq_ignore_ascii_case("connection") {
            close = header.value.eq_ignore_ascii_case(b"close");
        }
    }
    Ok(Some(Head { status, bytes: head_bytes, body, close }))
}

fn malformed(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

/// A whole answer; its body stays in the inbox until the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) close: bool,
    body_start: usize,
    body_end: usize,
}

/// Bytes received and not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// One read; 0 means that the other side has closed.
    pub(crate) fn read_from(&mut self, source: &mut impl Read) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.buffer.len() - self.end < READ_BYTES / 2 && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.buffer.len() - self.end < READ_BYTES / 2 {
            self.buffer.resize(self.end + READ_BYTES, 0);
        }
        let read = source.read(&mut self.buffer[self.end..])?;
        self.end += read;
        Ok(read)
    }

    /// The next whole answer; `None` where more has to be read first.
    pub(crate) fn next_reply(&mut self) -> io::Result<Option<Reply>> {
        let Some(head) = parse_head(&self.buffer[self.start..self.end])? else { return Ok(None) };
        let Body::Bytes(length) = head.body else {
            return Err(malformed("an answer is chunked, expected a length"));
        };
        let body_start = self.start + head.bytes;
        let body_end = body_start + length;
        if body_end > self.end {
            return Ok(None);
        }
        self.start = body_end;
        Ok(Some(Reply { status: head.status, close: head.close, body_start, body_end }))
    }

    /// The body of the answer that was taken last.
    pub(crate) fn body(&self, reply: &Reply) -> &[u8] {
        &self.buffer[reply.body_start..reply.body_end]
    }

    /// What was received and not taken.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(crate) fn take(&mut self, bytes: usize) {
        self.start += bytes;
        debug_assert!(self.start <= self.end);
    }

    pub(crate) fn clear(&mut self) {
        (self.start, self.end) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

    #[test]
    fn answers_come_out_whole_however_they_were_cut() {
        for cut in 1..TWO.len() {
            let mut inbox = Inbox::default();
            let mut replies = Vec::new();
            for mut part in [&TWO[..cut], &TWO[cut..]] {
                while inbox.read_from(&mut part).expect("from memory") > 0 {
                    while let Some(reply) = inbox.next_reply().expect("well-formed") {
                        replies.push((reply.status, reply.close, inbox.body(&reply).to_vec()));
                    }
                }
            }
            assert_eq!(replies, [(200, false, b"abc".to_vec()), (503, true, Vec::new())], "cut at {cut}");
        }
    }

    #[test]
    fn a_body_larger_than_a_read_is_waited_for() {
        let mut bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n".to_vec();
        bytes.resize(bytes.len() + 300_000, b'x');
        let (mut source, mut inbox) = (bytes.as_slice(), Inbox::default());
        let reply = loop {
            assert!(inbox.read_from(&mut source).expect("from memory") > 0);
            if let Some(reply) = inbox.next_reply().expect("well-formed") {
                break reply;
            }
        };
        assert_eq!(inbox.body(&reply).len(), 300_000);
    }

    #[test]
    fn what_is_no_http_is_an_error() {
        let mut inbox = Inbox::default();
        inbox.read_from(&mut b"SSH-2.0-x\r\n".as_slice()).expect("from memory");
        assert!(inbox.next_reply().is_err());
    }
}
