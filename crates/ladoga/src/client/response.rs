use std::io::{self, BufRead, BufReader, Error, ErrorKind, Read};
use std::net::TcpStream;

use super::{ClientError, Url};

const HEAD_BYTES_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;
/// A refusal is one line; more than this is none.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// How long the body of an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    Known(u64),
    Chunked,
    UntilClosed,
}

/// An answer, of which the head was read.
pub(crate) struct Response {
    pub(crate) status: u16,
    length: Length,
    url: Url,
    body: Box<dyn BufRead>,
}

impl Response {
    pub(super) fn read_head(url: &Url, stream: BufReader<TcpStream>) -> Result<Response, ClientError> {
        Response::read(url, Box::new(stream))
    }

    fn read(url: &Url, mut body: Box<dyn BufRead>) -> Result<Response, ClientError> {
        loop {
            let head = read_until_empty_line(&mut body).map_err(|error| broken(url, error))?;
            let not_http = |reason| ClientError::NotHttp { url: url.clone(), reason };
            let (status, length) = parse_head(&head).map_err(not_http)?;
            // Interim answers come before the one that counts.
            if status >= 200 {
                return Ok(Response { status, length, url: url.clone(), body });
            }
        }
    }

    /// Gives the body to `write`, piece by piece.
    pub(crate) fn body<E: From<ClientError>>(
        mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut piece = Vec::new();
        match self.length {
            Length::Chunked => {
                while self.next_chunk(&mut piece)? {
                    write(&piece)?;
                }
            }
            Length::Known(mut left) => {
                while left > 0 {
                    let bytes = self.body.fill_buf().map_err(|error| broken(&self.url, error))?;
                    let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if count == 0 {
                        return Err(broken(&self.url, ErrorKind::UnexpectedEof.into()).into());
                    }
                    write(&bytes[..count])?;
                    self.body.consume(count);
                    left -= count as u64;
                }
            }
            Length::UntilClosed => {
                self.body.read_to_end(&mut piece).map_err(|error| broken(&self.url, error))?;
                write(&piece)?;
            }
        }
        Ok(())
    }

    /// The line of a refusal.
    pub(crate) fn line(self) -> String {
        let mut line = Vec::new();
        let status = self.status;
        let read = self.body(|piece| {
            let room = (LINE_BYTES_MAX as usize).saturating_sub(line.len());
            line.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok::<_, ClientError>(())
        });
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if read.is_err() || line.is_empty() {
            format!("the node answered with status {status}")
        } else {
            line
        }
    }

    /// Reads the next chunk of a chunked body into `chunk`; false at the end.
    pub(crate) fn next_chunk(&mut self, chunk: &mut Vec<u8>) -> Result<bool, ClientError> {
        let read = if self.length == Length::Chunked {
            read_chunk(&mut self.body, chunk)
        } else {
            Err(Error::new(ErrorKind::InvalidData, "the answer is not chunked"))
        };
        read.map_err(|error| broken(&self.url, error))
    }
}

fn broken(url: &Url, error: Error) -> ClientError {
    ClientError::Broken { url: url.clone(), error }
}

fn read_until_empty_line(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let room = (HEAD_BYTES_MAX - head.len()) as u64;
        if from.take(room).read_until(b'\n', &mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

fn parse_head(head: &[u8]) -> Result<(u16, Length), String> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err("the head of the answer is incomplete".to_owned()),
        Err(error) => return Err(error.to_string()),
    }
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value.trim_ascii())
    };
    let length = match (header("transfer-encoding"), header("content-length")) {
        (Some(encoding), _) if encoding.eq_ignore_ascii_case(b"chunked") => Length::Chunked,
        (None, Some(digits)) => {
            let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            Length::Known(number.ok_or("the length of the answer is no number")?)
        }
        (Some(_), _) => return Err("the answer has an unknown encoding".to_owned()),
        (None, None) => Length::UntilClosed,
    };
    Ok((response.code.ok_or("the answer has no status")?, length))
}

fn read_chunk(from: &mut impl BufRead, chunk: &mut Vec<u8>) -> io::Result<bool> {
    let invalid = || Error::new(ErrorKind::InvalidData, "a chunk is malformed");
    let mut line = Vec::new();
    from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let digits = line.strip_suffix(b"\r\n").ok_or(ErrorKind::UnexpectedEof)?;
    let digits = digits.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    let length = str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let length = length.ok_or_else(invalid)?;
    chunk.clear();
    from.take(length).read_to_end(chunk)?;
    let mut end = [0; 2];
    from.read_exact(&mut end)?;
    if chunk.len() as u64 != length || end != *b"\r\n" {
        return Err(invalid());
    }
    Ok(length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(bytes: &'static str) -> Result<Response, ClientError> {
        let url = Url::parse("http://h").expect("a URL");
        Response::read(&url, Box::new(bytes.as_bytes()))
    }

    fn chunks(bytes: &'static str) -> Result<Vec<String>, ClientError> {
        let mut response = response(bytes)?;
        let (mut chunk, mut chunks) = (Vec::new(), Vec::new());
        while response.next_chunk(&mut chunk)? {
            chunks.push(String::from_utf8_lossy(&chunk).into_owned());
        }
        Ok(chunks)
    }

    #[test]
    fn chunks_are_told_apart() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n";
        let found = chunks(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\na\nb\r\nA;x\r\n0123456789\r\n0\r\n\r\n",
        );
        assert_eq!(found.expect("chunks"), ["a\nb", "0123456789"]);
        assert!(chunks(head).is_err(), "cut off");
        assert!(chunks("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab").is_err());
        assert!(chunks("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n").is_err());
    }

    #[test]
    fn an_interim_answer_is_passed_over() {
        let response = response(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nnone\n",
        );
        let response = response.expect("an answer");
        assert_eq!(response.status, 404);
        assert_eq!(response.line(), "none");
    }

    #[test]
    fn what_is_no_answer_is_told() {
        assert!(matches!(response("nonsense\r\n\r\n"), Err(ClientError::NotHttp { .. })));
        assert!(matches!(response("HTTP/1.1 200 OK\r\n"), Err(ClientError::Broken { .. })));
    }

    #[test]
    fn a_refusal_without_a_line_has_its_status() {
        let response =
            response("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n").expect("an answer");
        assert_eq!(response.line(), "the node answered with status 503");
    }
}
