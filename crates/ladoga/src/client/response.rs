use std::io::BufRead;
use std::time::Duration;

use ladoga_http1::answer::{Answers, Asked, Head};
use serde_json::Value;

use super::refusal::{printable, refusal};
use super::{ClientError, Url, throttled, unreadable};

/// Of lines of JSON.
pub(crate) const NDJSON: &str = "application/x-ndjson";
/// Of values.
const OCTETS: &str = "application/octet-stream";
/// Of refusals.
pub(crate) const TEXT: &str = "text/plain";
/// What a node says about a key that does not exist.
const ABSENT: &str = "there is no value under this key";
/// A refusal and a number are one line; of more than this, the rest is left out.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// What is printed of what somebody else than a node sends.
const FOUND_BYTES_MAX: usize = 64;

/// An answer, of which the head was read.
pub(crate) struct Response {
    pub(crate) status: u16,
    head: Head<Vec<u8>>,
    url: Url,
    is_to_head: bool,
    /// How long each read may take.
    patience: Option<Duration>,
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
            Ok(head) => {
                let (status, url) = (head.status, url.clone());
                Ok(Response { status, head, url, is_to_head, patience: None, answers })
            }
            Err(error) => Err(unreadable(url, error)),
        }
    }

    /// The same of a node that is waited for no longer than that at a time.
    pub(super) fn within(self, patience: Option<Duration>) -> Response {
        Response { patience, ..self }
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        str::from_utf8(self.head.header(name)?).ok()
    }

    /// When to ask again, if the token has used its rate.
    pub(super) fn pause(&self) -> Option<Duration> {
        throttled::pause_of(self.status, self.head.header("retry-after"))
    }

    /// Gives the body to `write`, piece by piece.
    pub(crate) fn body<E: From<ClientError>>(
        mut self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Response { url, answers, patience, .. } = &mut self;
        let broken = |error| ClientError::Broken { url: url.clone(), error }.within(*patience);
        while let Some(piece) = answers.piece().map_err(broken)? {
            write(piece)?;
        }
        Ok(())
    }

    /// Gives the lines of JSON of which the body consists to `write`, piece by piece. Fails if it is of another type, or the last line has
    /// no end.
    pub(crate) fn lines<E: From<ClientError>>(
        self,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_type(NDJSON)?;
        let (url, mut last) = (self.url.clone(), None);
        self.body(|piece| {
            last = piece.last().copied().or(last);
            write(piece)
        })?;
        if last.is_none_or(|byte| byte == b'\n') { Ok(()) } else { Err(ClientError::Cut { url }.into()) }
    }

    /// The body, which is a short text.
    pub(crate) fn text(self) -> Result<String, ClientError> {
        let mut text = Vec::new();
        self.body(|piece| {
            let room = TEXT_BYTES_MAX.saturating_sub(text.len());
            text.extend_from_slice(&piece[..piece.len().min(room)]);
            Ok::<_, ClientError>(())
        })?;
        Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    /// The body, which is a number in decimal digits.
    pub(crate) fn number(self, expected: &'static str) -> Result<String, ClientError> {
        self.checked_text(expected, |text| {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
    }

    /// The body, which is a number of keys; before it there are signs that the node goes on counting.
    pub(crate) fn count(self) -> Result<u64, ClientError> {
        const EXPECTED: &str = "the number of keys";
        let (url, mut line) = (self.url.clone(), Vec::new());
        self.lines(|piece| {
            let room = TEXT_BYTES_MAX - line.len();
            line.extend(piece.iter().filter(|byte| **byte != b'\n').take(room));
            Ok::<_, ClientError>(())
        })?;
        let count: Option<Value> = serde_json::from_slice(&line).ok();
        count.and_then(|count| count["count"].as_u64()).ok_or_else(|| {
            let found = format!("'{}'", printable(&String::from_utf8_lossy(&line), FOUND_BYTES_MAX));
            ClientError::NotANode { url, found, expected: EXPECTED }
        })
    }

    /// The body, which says that the node serves requests.
    pub(crate) fn serving(self) -> Result<String, ClientError> {
        const SERVING: &str = "serving";
        self.checked_text(SERVING, |text| text == SERVING)
    }

    /// The body, which says that the node would serve a request now.
    pub(crate) fn ready(self) -> Result<String, ClientError> {
        const READY: &str = "ready";
        self.checked_text(READY, |text| text == READY)
    }

    fn checked_text(
        self,
        expected: &'static str,
        is_right: impl FnOnce(&str) -> bool,
    ) -> Result<String, ClientError> {
        let url = self.url.clone();
        let text = self.text()?;
        if is_right(&text) {
            return Ok(text);
        }
        let found = format!("'{}'", printable(&text, FOUND_BYTES_MAX));
        Err(ClientError::NotANode { url, found, expected })
    }

    /// What is printed of a refusal.
    pub(crate) fn refusal(self) -> String {
        let (url, status) = (self.url.clone(), self.status);
        let content_type = self.header("content-type").map(str::to_owned);
        // What cannot be read of a reason is not told.
        let text = self.text().unwrap_or_default();
        refusal(&url, status, content_type.as_deref(), text.as_bytes())
    }

    /// Whether the body is of this type, whatever parameters it has.
    pub(crate) fn is_of_type(&self, expected: &str) -> bool {
        let found = self.header("content-type").unwrap_or_default();
        found.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
    }

    /// Fails if the body is of another type: then no node sent it.
    pub(crate) fn check_type(&self, expected: &'static str) -> Result<(), ClientError> {
        if self.is_of_type(expected) {
            return Ok(());
        }
        let found = self.header("content-type").map_or_else(
            || "an answer without a content type".to_owned(),
            |found| format!("an answer of type {}", printable(found, FOUND_BYTES_MAX)),
        );
        Err(self.not_a_node(found, expected))
    }

    /// The version of the value that it is about, which nodes always say.
    pub(crate) fn etag(&self) -> Result<&str, ClientError> {
        self.header("etag")
            .ok_or_else(|| self.not_a_node("an answer without an ETag".to_owned(), "the one of the value"))
    }

    /// Fails if the body is no value: pages have versions as well, and another type.
    pub(crate) fn check_value(&self) -> Result<(), ClientError> {
        self.check_type(OCTETS)?;
        self.etag().map(drop)
    }

    /// Reads the answer to a write that was done: it has the new version, and no body.
    pub(crate) fn check_done(self) -> Result<(), ClientError> {
        self.etag()?;
        self.checked_text("an answer without a body", str::is_empty).map(drop)
    }

    /// Reads a `404`, which is how a node says that a key does not exist. Anybody else has no such page.
    pub(crate) fn check_absent(self) -> Result<(), ClientError> {
        let url = self.url.clone();
        let found = if !self.is_of_type(TEXT) {
            self.header("content-type").map_or_else(
                || "404 without a content type".to_owned(),
                |found| format!("404 of type {}", printable(found, FOUND_BYTES_MAX)),
            )
        } else if self.is_to_head {
            // Of the line there is the length, which counts its end.
            let length = self.header("content-length").unwrap_or("unknown");
            if length.parse() == Ok(ABSENT.len() + 1) {
                return Ok(());
            }
            format!("404 with a text of length {}", printable(length, FOUND_BYTES_MAX))
        } else {
            let text = self.text()?;
            if text == ABSENT {
                return Ok(());
            }
            format!("404 with '{}'", printable(&text, FOUND_BYTES_MAX))
        };
        Err(ClientError::NotANode { url, found, expected: "404 with 'there is no value under this key'" })
    }

    /// The error that says that no node sent it.
    pub(crate) fn not_a_node(&self, found: String, expected: &'static str) -> ClientError {
        ClientError::NotANode { url: self.url.clone(), found, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(bytes: &'static str) -> Result<Response, ClientError> {
        let url = Url::parse("http://h").expect("a URL");
        Response::read_head(&url, Box::new(bytes.as_bytes()), false)
    }

    #[test]
    fn a_refusal_may_have_a_reason() {
        let of =
            |bytes| response(bytes).map(|response| (response.status, response.refusal())).expect("an answer");
        let said = of("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\n\
             content-length: 5\r\n\r\nnone\n");
        assert_eq!(said, (404, "http://h:80 answered 404: none".to_owned()));
        let silent = of("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(silent, (503, "http://h:80 answered 503".to_owned()));
    }

    #[test]
    fn lines_have_their_type_and_their_ends() {
        let of = |bytes| {
            let mut text = Vec::new();
            let read = response(bytes).expect("an answer").lines(|piece| {
                text.extend_from_slice(piece);
                Ok::<_, ClientError>(())
            });
            (String::from_utf8(text).expect("a text"), read.map_err(|error| error.to_string()))
        };
        let whole = of("HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n{}\n{}\n");
        assert_eq!(whole, ("{}\n{}\n".to_owned(), Ok(())));
        let none = of("HTTP/1.1 200 OK\r\ncontent-type: Application/X-NDJSON; a=b\r\n\r\n");
        assert_eq!(none, (String::new(), Ok(())));
        let (_, cut) = of("HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n{}\n{\"key\":");
        assert_eq!(cut, Err("http://h:80 cut its answer off in the middle of a line".to_owned()));
        let (text, page) = of("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>\n");
        let expected = "no Ladoga node answers at http://h:80: found an answer of type text/html, expected application/x-ndjson";
        assert_eq!((text, page), (String::new(), Err(expected.to_owned())));
    }

    #[test]
    fn a_number_of_keys_comes_after_signs() {
        let of = |bytes| response(bytes).expect("an answer").count().map_err(|error| error.to_string());
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n";
        assert_eq!(
            of("HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\n\r\n\n\n{\"count\":17}\n"),
            Ok(17)
        );
        let none = "no Ladoga node answers at http://h:80: found '', expected the number of keys";
        assert_eq!(of(head), Err(none.to_owned()));
    }

    #[test]
    fn a_key_is_absent_only_if_a_node_says_so() {
        let of = |is_to_head, bytes: &'static str| {
            let url = Url::parse("http://h").expect("a URL");
            let response = Response::read_head(&url, Box::new(bytes.as_bytes()), is_to_head);
            response.expect("an answer").check_absent().map_err(|error| error.to_string())
        };
        let head =
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: 33\r\n\r\n";
        assert_eq!(of(true, head), Ok(()));
        let line =
            "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\n\r\nthere is no value under this key\n";
        assert_eq!(of(false, line), Ok(()));
        for (is_to_head, bytes, found) in [
            (true, line, "404 with a text of length unknown"),
            (
                true,
                "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 19\r\n\r\n",
                "404 with a text of length 19",
            ),
            (true, "HTTP/1.1 404 Not Found\r\ncontent-length: 33\r\n\r\n", "404 without a content type"),
            (false, "HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\n\r\nnone\n", "404 with 'none'"),
            (false, "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\n\r\n<p>", "404 of type text/html"),
        ] {
            let expected = format!(
                "no Ladoga node answers at http://h:80: found {found}, expected 404 with 'there is no value under this key'"
            );
            assert_eq!(of(is_to_head, bytes), Err(expected));
        }
    }

    #[test]
    fn what_is_no_answer_is_told() {
        assert!(matches!(response("nonsense\r\n\r\n"), Err(ClientError::NotHttp { .. })));
        assert!(matches!(response("HTTP/1.1 200 OK\r\n"), Err(ClientError::Broken { .. })));
    }
}
