use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Connection, Response, assert_refusal, entity};

/// Requests of a pipeline that does nothing for so long have been read as far as they were sent, as a rule. No answer shows
/// whether they have, since the request that was cut has none yet. What a test asserts does not depend on it.
const PAUSE: Duration = Duration::from_millis(15);
/// So many connections at a time at most: their requests are under the bounds of a node with little memory.
const CONNECTIONS_MAX: usize = 20;
/// What they send together at most. A node queues half a MiB of writes however slow its disk is.
const BYTES_MAX: usize = 450 << 10;

/// How a request has to be answered.
#[derive(Debug, Clone)]
pub(crate) enum Expected {
    /// `200` with this value.
    Value(Arc<Vec<u8>>),
    /// `200` with these records.
    Records(Arc<Vec<(Vec<u8>, Vec<u8>)>>),
    /// `200` to `HEAD` of a value of this length.
    Head(usize),
    /// `200` with whatever there is.
    Something,
    /// This status, and nothing more.
    Empty(u16),
    /// `100`, if the node sends it, and then this status and nothing more.
    Continued(u16),
    /// This refusal; the connection goes on.
    Refused(u16),
    /// This refusal, of a request whose body may not be there yet: the connection goes on, or this was its last answer.
    RefusedWithBody(u16),
    /// A refusal of one of these, which is the last answer of the connection.
    Closed(&'static [u16]),
}

/// A request, as it is sent, and how it has to be answered.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    pub(crate) request: Vec<u8>,
    pub(crate) expected: Expected,
}

impl Exchange {
    /// A request from its method, its target, more headers, and its body.
    pub(crate) fn new(start: &str, headers: &str, body: &[u8], expected: Expected) -> Exchange {
        let head = format!("{start} HTTP/1.1\r\nHost: h\r\n{headers}\r\n");
        Exchange { request: [head.as_bytes(), body].concat(), expected }
    }

    /// A request without a body.
    pub(crate) fn plain(start: &str, expected: Expected) -> Exchange {
        Exchange::new(start, "", b"", expected)
    }

    /// A request with a body and its length.
    pub(crate) fn with_body(start: &str, body: &[u8], expected: Expected) -> Exchange {
        Exchange::new(start, &format!("Content-Length: {}\r\n", body.len()), body, expected)
    }

    /// A read of a value that is there.
    pub(crate) fn get(key: &str, value: &Arc<Vec<u8>>) -> Exchange {
        Exchange::plain(&format!("GET {}", entity(key)), Expected::Value(Arc::clone(value)))
    }

    /// Reads the answer; whether it was the last one of its connection.
    fn check(&self, connection: &mut Connection, what: &str) -> bool {
        let mut answer = || match &self.expected {
            Expected::Head(_) => connection.response_to_head(),
            _ => connection.try_response().unwrap_or_else(|error| panic!("{what}: {error}")),
        };
        let mut response = answer();
        if matches!(self.expected, Expected::Continued(_)) && response.status == 100 {
            response = answer();
        }
        let (status, closes) = (response.status, response.closes());
        let is_right = match &self.expected {
            Expected::Value(value) => status == 200 && response.body == **value,
            Expected::Records(records) => status == 200 && response.records() == **records,
            Expected::Head(length) => {
                status == 200 && response.header("content-length") == Some(&length.to_string())
            }
            Expected::Something => status == 200 && !response.body.is_empty(),
            Expected::Empty(expected) | Expected::Continued(expected) => {
                status == *expected && response.body.is_empty()
            }
            Expected::Refused(expected) | Expected::RefusedWithBody(expected) => status == *expected,
            Expected::Closed(expected) => expected.contains(&status),
        };
        let may_close = matches!(self.expected, Expected::Closed(_) | Expected::RefusedWithBody(_));
        let must_close = matches!(self.expected, Expected::Closed(_));
        let is_kept_right = if closes { may_close } else { !must_close };
        assert!(is_right && is_kept_right, "{what}: {}", shown(&response));
        if status >= 400 {
            assert_refusal(&response, status, what);
        }
        closes
    }
}

fn shown(response: &Response) -> String {
    let Response { status, headers, body, .. } = response;
    let start = &body[..body.len().min(100)];
    format!("{status} {headers:?} with {} bytes: {}", body.len(), start.escape_ascii())
}

/// The bytes of all requests, one behind the other.
pub(crate) fn bytes_of(pipeline: &[Exchange]) -> Vec<u8> {
    pipeline.iter().flat_map(|exchange| exchange.request.iter().copied()).collect()
}

/// Reads an answer to every request, in order, and nothing more.
pub(crate) fn expect_answers(mut connection: Connection, pipeline: &[Exchange], what: &str) {
    for (index, exchange) in pipeline.iter().enumerate() {
        if exchange.check(&mut connection, &format!("{what}, answer {index} of {}", pipeline.len())) {
            return connection.expect_closed();
        }
    }
    // The node's end of the stream proves that nothing more comes.
    connection.finish_sending();
    connection.expect_closed();
}

/// Sends the requests on a connection for each of `cuts`, in as many pieces as its places make: each but the last, a
/// pause, the next. All connections have their pauses at once.
pub(crate) fn exchange_cut(address: SocketAddr, pipeline: &[Exchange], cuts: &[Vec<usize>], what: &str) {
    let bytes = bytes_of(pipeline);
    let at_a_time = (BYTES_MAX / bytes.len()).clamp(1, CONNECTIONS_MAX);
    for cuts in cuts.chunks(at_a_time) {
        thread::scope(|scope| {
            for places in cuts {
                let bytes = &bytes;
                scope.spawn(move || {
                    let what = format!("{what}, cut at {places:?}");
                    let (mut sender, reader) = Connection::open(address).split();
                    thread::scope(|scope| {
                        // A node that has closed the connection need not have read everything.
                        scope.spawn(move || send_cut(&mut sender, bytes, places).ok());
                        expect_answers(reader, pipeline, &what);
                    });
                });
            }
        });
    }
}

fn send_cut(sender: &mut Connection, bytes: &[u8], places: &[usize]) -> io::Result<()> {
    let mut sent = 0;
    for &place in places.iter().filter(|&&place| place < bytes.len()) {
        sender.try_send(&bytes[sent..place])?;
        sent = place;
        thread::sleep(PAUSE);
    }
    sender.try_send(&bytes[sent..])
}

/// Every place of the first 200 bytes from `start` on.
pub(crate) fn cuts_from(start: usize) -> Vec<Vec<usize>> {
    (start + 1..=start + 200).map(|place| vec![place]).collect()
}

/// The places around the boundaries of what is read at once, each also behind a cut of the first head, which has the node
/// read more at once.
pub(crate) fn cuts_at_boundaries() -> Vec<Vec<usize>> {
    let around = |boundary: usize| boundary - 2..=boundary + 2;
    let places = [8 << 10, 16 << 10, 64 << 10, 128 << 10].into_iter().flat_map(around);
    places.flat_map(|place| [vec![place], vec![10, place]]).collect()
}

/// A request that no client sent: if it is served, a byte of a value was taken for a request.
pub(crate) const SMUGGLED: &str = "DELETE /v0/entity?id=victim HTTP/1.1\r\nHost: h\r\n\r\n";

/// A value of this length that consists of requests, and is no other's.
pub(crate) fn value_of_requests(number: usize, length: usize) -> Vec<u8> {
    let mut value = format!("{number:07}\r\n\r\n").into_bytes();
    while value.len() < length {
        value.extend_from_slice(SMUGGLED.as_bytes());
    }
    value.truncate(length);
    value
}
