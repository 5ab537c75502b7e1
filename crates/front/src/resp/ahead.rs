//! Requests that have arrived behind the one in turn.

use bytes::BytesMut;
use ladoga_resp::{Parser, ProtocolError, Request, Step};
use ladoga_service::KeyValue;

use super::door::RespDoor;
use super::link::RespLink;

/// So many requests are taken out of what has arrived at once.
const REQUESTS_AHEAD_MAX: usize = 16;

/// Requests that have arrived together with one that is served, in their order. They take no more memory than they did as bytes.
pub(super) struct Ahead {
    requests: std::vec::IntoIter<Request>,
    /// What follows them is no request.
    error: Option<ProtocolError>,
}

impl Ahead {
    pub(super) fn new() -> Ahead {
        Ahead { requests: Vec::new().into_iter(), error: None }
    }

    /// What the bytes that have arrived come to next. If several requests are there, `fetch` is called with what are probably their
    /// keys, before the first of them is served.
    pub(super) fn next(
        &mut self,
        parser: &mut Parser,
        input: &mut BytesMut,
        fetch: impl FnOnce(&[&[u8]]),
    ) -> Result<Step, ProtocolError> {
        if let Some(request) = self.requests.next() {
            return Ok(Step::Request(request));
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match parser.next(input)? {
            // (What follows the request by which somebody is let in is judged after that.)
            Step::Request(first) if !input.is_empty() && !parser.limits_mut().is_of_stranger => {
                self.take(first, parser, input);
                fetch_keys(self.requests.as_slice(), fetch);
                Ok(Step::Request(self.requests.next().expect("the first is there")))
            }
            Step::Request(request) => Ok(Step::Request(request)),
            step => {
                // A connection that waits keeps no memory for them.
                self.requests = Vec::new().into_iter();
                Ok(step)
            }
        }
    }

    /// Has what a request will look up be fetched together with what others will that have arrived in the same turn of the event loop
    /// on other connections; but for requests behind which others have arrived: these do not wait for other connections.
    pub(super) async fn meet_others<K: KeyValue>(
        &self,
        (door, link): (&RespDoor<K>, &RespLink),
        request: &Request,
    ) {
        if let Some(key) = key_to_read(request)
            && self.requests.as_slice().is_empty()
            && link.buffers().input.is_empty()
            && let Ok(service) = door.service()
        {
            door.door.core.together.meet(key, |keys| service.fetch_ahead(keys)).await;
        }
    }

    /// Takes the requests behind the first. Where they end, the parser says the same again when it is asked again, but for an error.
    fn take(&mut self, first: Request, parser: &mut Parser, input: &mut BytesMut) {
        let mut requests = vec![first];
        while requests.len() < REQUESTS_AHEAD_MAX {
            match parser.next(input) {
                Ok(Step::Request(request)) => requests.push(request),
                Ok(_) => break,
                Err(error) => {
                    self.error = Some(error);
                    break;
                }
            }
        }
        self.requests = requests.into_iter();
    }
}

/// The key of a request that reads one value and does nothing else, as far as a glance tells.
fn key_to_read(request: &Request) -> Option<&[u8]> {
    let is_get = request.get(0)?.eq_ignore_ascii_case(b"get") && request.get(2).is_none();
    request.get(1).filter(|_| is_get)
}

/// The first argument of nearly every command is its key. If it is not, nothing is lost.
fn fetch_keys(requests: &[Request], fetch: impl FnOnce(&[&[u8]])) {
    let (mut keys, mut count) = ([&b""[..]; REQUESTS_AHEAD_MAX], 0);
    for (place, key) in keys.iter_mut().zip(requests.iter().filter_map(|request| request.get(1))) {
        *place = key;
        count += 1;
    }
    if count > 1 {
        fetch(&keys[..count]);
    }
}

#[cfg(test)]
mod tests {
    use ladoga_resp::ParserLimits;

    use super::*;

    fn parser() -> Parser {
        Parser::new(ParserLimits {
            arguments_max: 8,
            argument_bytes_max: 100,
            large_bytes_min: 50,
            request_bytes_max: 1000,
            is_of_stranger: false,
        })
    }

    /// All steps that these bytes come to, and the keys that were fetched.
    fn steps(bytes: &[u8]) -> (Vec<String>, Vec<Vec<u8>>) {
        let (mut ahead, mut parser, mut input) = (Ahead::new(), parser(), BytesMut::from(bytes));
        let (mut steps, mut fetched) = (Vec::new(), Vec::new());
        loop {
            let fetch = |keys: &[&[u8]]| fetched.extend(keys.iter().map(|key| key.to_vec()));
            match ahead.next(&mut parser, &mut input, fetch) {
                Ok(Step::Request(request)) => {
                    steps.push(String::from_utf8_lossy(&request[0]).into_owned());
                }
                Ok(step) => {
                    steps.push(format!("{step:?}"));
                    return (steps, fetched);
                }
                Err(error) => {
                    steps.push(error.to_string());
                    return (steps, fetched);
                }
            }
        }
    }

    #[test]
    fn requests_come_in_their_order_and_their_keys_are_fetched_together() {
        let many = b"GET k\r\n".repeat(REQUESTS_AHEAD_MAX + 3);
        let (found, fetched) = steps(&many);
        assert_eq!(found.iter().filter(|step| *step == "GET").count(), REQUESTS_AHEAD_MAX + 3);
        assert_eq!(found.last().map(String::as_str), Some("Incomplete { bytes: 1 }"));
        assert_eq!(fetched, vec![b"k".to_vec(); REQUESTS_AHEAD_MAX + 3]);
        assert_eq!(steps(b"PING\r\nGET a\r\nPING\r\nSET b 1\r\n").1, [b"a", b"b"]);
        assert!(steps(b"PING\r\nGET a\r\n").1.is_empty(), "one key is not worth it");
    }

    #[test]
    fn what_is_no_request_comes_after_those_before_it() {
        let (found, _) = steps(b"GET a\r\nGET 'b\r\nGET c\r\n");
        assert_eq!(found, ["GET", "Protocol error: unbalanced quotes in request"]);
        let (found, _) = steps(b"GET a\r\n*1\r\n+no\r\n");
        assert_eq!(found, ["GET", "Protocol error: expected '$', got '+'"]);
        let (found, _) = steps(b"GET a\r\nGET b\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60\r\nxxx");
        assert_eq!(found, ["GET", "GET", "Large { bytes: 60 }"]);
        let (found, _) = steps(b"GET a\r\nGET b\r\n*2\r\n$3\r\nGET\r\n$9\r\nxxx");
        assert_eq!(found, ["GET", "GET", "Incomplete { bytes: 24 }"]);
    }
}
