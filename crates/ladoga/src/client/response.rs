use std::io::{BufRead, Error, ErrorKind};

use ladoga_http1::answer::{Answers, Asked, Head};

use super::{ClientError, Url};

/// A refusal is one line; more than this is none.
const LINE_BYTES_MAX: usize = 16 << 10;

/// An answer, of which the head was read.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: Head<Vec<u8>>,
    url: Url,
    answers: Answers<Box<dyn BufRead>>,
}

impl Response {
    pub(super) fn read_head(
        url: &Url,
        stream: Box<dyn BufRead>,
        is_to_head: bool,
    ) -> Result<Response, ClientError> {
        let mut answers = Answers::new(stream);
        match answers.head(if is_to_head { Asked::Head } else { Asked::Ordinary }) {
            Ok(head) => Ok(Response { status: head.status, head, url: url.clone(), answers }),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(ClientError::NotHttp { url: url.clone(), reason: error.to_string() })
            }
            Err(error) => Err(broken(url, error)),
        }
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.head.header(name)?).ok()
    }

    /// Gives the body to `write`, piece by piece.
    pub(crate) fn body<E: From<ClientError>>(
        mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Response { url, answers, .. } = &mut self;
        while let Some(piece) = answers.piece().map_err(|error| broken(url, error))? {
            write(piece)?;
        }
        Ok(())
    }

    /// The line of a refusal.
    pub(crate) fn line(self) -> String {
        let mut line = Vec::new();
        let status = self.status;
        let read = self.body(|piece| {
            let room = LINE_BYTES_MAX.saturating_sub(line.len());
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
        self.answers.next_chunk(chunk).map_err(|error| broken(&self.url, error))
    }
}

fn broken(url: &Url, error: Error) -> ClientError {
    ClientError::Broken { url: url.clone(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(bytes: &'static str) -> Result<Response, ClientError> {
        let url = Url::parse("http://h").expect("a URL");
        Response::read_head(&url, Box::new(bytes.as_bytes()), false)
    }

    #[test]
    fn a_refusal_has_a_line_or_else_its_status() {
        let of =
            |bytes| response(bytes).map(|response| (response.status, response.line())).expect("an answer");
        let said =
            of("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nnone\n");
        assert_eq!(said, (404, "none".to_owned()));
        let silent = of("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(silent, (503, "the node answered with status 503".to_owned()));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        assert!(matches!(response("nonsense\r\n\r\n"), Err(ClientError::NotHttp { .. })));
        assert!(matches!(response("HTTP/1.1 200 OK\r\n"), Err(ClientError::Broken { .. })));
    }
}
