use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderValue, UPGRADE};
use hyper::{HeaderMap, Response, StatusCode, Version};

use super::body::Body;
use super::refusal::Refusal;
use super::wire::RawHead;

/// Of values, which are any bytes.
const OCTETS: &str = "application/octet-stream";

/// What a request is answered with.
pub(crate) type Answer = Response<Body>;

/// The headers of a request, and of its answer after that: the map is used again, so that no request allocates one.
#[derive(Debug, Default)]
pub(crate) struct Head {
    headers: HeaderMap,
    version: Version,
    has_body: bool,
}

/// How an answer goes out that hyper does not write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Whether the client knows chunks.
    pub(crate) is_chunked: bool,
    /// Whether the connection takes another request after it.
    pub(crate) keeps_alive: bool,
}

impl Head {
    /// Of a request.
    pub(crate) fn of(headers: HeaderMap, version: Version, body: &Incoming) -> Head {
        Head { headers, version, has_body: !body.is_end_stream() }
    }

    /// How long the headers are, as they were sent: name, colon, space, value, line end.
    pub(crate) fn headers_bytes(&self) -> usize {
        self.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum()
    }

    /// The length of the value that comes with the request, where it says one.
    pub(crate) fn value_bytes(&self, body: &Incoming) -> Option<u64> {
        match body.size_hint().exact() {
            // Without a body, the length may be 0, or not said.
            Some(0) if !self.headers.contains_key(CONTENT_LENGTH) => None,
            length => length,
        }
    }

    /// Whether the client sends its body only once it is told to.
    pub(crate) fn expects_continue(&self) -> bool {
        self.headers.contains_key(EXPECT)
    }

    /// Whether the request has a body.
    pub(crate) fn has_body(&self) -> bool {
        self.has_body
    }

    /// Whether the client wants to go on in another protocol.
    pub(crate) fn upgrades_to(&self, protocol: &str) -> bool {
        self.headers.get_all(UPGRADE).iter().any(|value| value.as_bytes() == protocol.as_bytes())
    }

    /// How an answer can go out past hyper.
    pub(crate) fn delivery(&self) -> Delivery {
        let says_close = self.headers.get_all(CONNECTION).iter().any(|value| {
            let tokens = value.as_bytes().split(|&byte| byte == b',');
            tokens.map(<[u8]>::trim_ascii).any(|token| token.eq_ignore_ascii_case(b"close"))
        });
        let is_chunked = self.version == Version::HTTP_11;
        Delivery { is_chunked, keeps_alive: is_chunked && !says_close && !self.has_body }
    }

    /// `200` with a value.
    pub(crate) fn value(self, value: Bytes) -> Answer {
        self.with_type(OCTETS, Body::full(value))
    }

    /// `200` as for a value of this length, without it.
    pub(crate) fn value_withheld(mut self, bytes: u64) -> Answer {
        self.headers.clear();
        let body = if bytes == 0 { Body::Empty } else { Body::Withheld(bytes) };
        let mut answer = self.with_type(OCTETS, body);
        if bytes == 0 {
            // Of an empty body hyper says nothing in an answer to HEAD.
            answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        answer
    }

    /// `200` with text.
    pub(crate) fn text(self, content_type: &'static str, text: String) -> Answer {
        self.with_type(content_type, Body::full(Bytes::from(text)))
    }

    /// `202` with text.
    pub(crate) fn accepted(self, text: String) -> Answer {
        let mut answer = self.text("text/plain; charset=utf-8", text);
        *answer.status_mut() = StatusCode::ACCEPTED;
        answer
    }

    /// A status that says it all.
    pub(crate) fn empty(mut self, status: StatusCode) -> Answer {
        self.headers.clear();
        let mut answer = Response::new(Body::Empty);
        *answer.status_mut() = status;
        *answer.headers_mut() = self.headers;
        answer
    }

    /// An answer that says no.
    pub(crate) fn refusal(self, refusal: Refusal) -> Answer {
        refusal.into_response(self.headers)
    }

    fn with_type(mut self, content_type: &'static str, body: Body) -> Answer {
        self.headers.clear();
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        let mut answer = Response::new(body);
        *answer.headers_mut() = self.headers;
        answer
    }
}

impl Delivery {
    /// The head of `200` with a value of this length.
    pub(crate) fn value_head(self, bytes: u64, wall_ms: u64) -> Vec<u8> {
        self.typed_head(OCTETS, bytes, wall_ms)
    }

    /// The head of `200` with so many bytes of another type.
    pub(crate) fn typed_head(self, content_type: &str, bytes: u64, wall_ms: u64) -> Vec<u8> {
        self.head(content_type, wall_ms).header("content-length", &bytes.to_string()).finish()
    }

    /// The head of `200` with records.
    pub(crate) fn records_head(self, wall_ms: u64) -> Vec<u8> {
        let head = self.head(OCTETS, wall_ms);
        if self.is_chunked { head.header("transfer-encoding", "chunked").finish() } else { head.finish() }
    }

    fn head(self, content_type: &str, wall_ms: u64) -> RawHead {
        let head = RawHead::new(StatusCode::OK, content_type, wall_ms);
        if self.keeps_alive { head } else { head.header("connection", "close") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(version: Version, connection: Option<&'static str>) -> Delivery {
        let connection = connection.map(|value| (CONNECTION, HeaderValue::from_static(value)));
        Head { headers: connection.into_iter().collect(), version, has_body: false }.delivery()
    }

    #[test]
    fn a_connection_is_kept_unless_somebody_says_otherwise() {
        let kept = Delivery { is_chunked: true, keeps_alive: true };
        assert_eq!(delivery(Version::HTTP_11, None), kept);
        assert_eq!(delivery(Version::HTTP_11, Some("keep-alive")), kept);
        assert!(!delivery(Version::HTTP_11, Some("x, CLOSE")).keeps_alive);
        let old = delivery(Version::HTTP_10, Some("keep-alive"));
        assert_eq!(old, Delivery { is_chunked: false, keeps_alive: false });
        let head = Head { has_body: true, version: Version::HTTP_11, ..Head::default() };
        assert!(!head.delivery().keeps_alive);
    }

    #[test]
    fn headers_are_measured_as_they_were_sent() {
        let headers = [("host", "h"), ("x-y", "")].map(|(name, value)| {
            (hyper::header::HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        let head = Head { headers: headers.into_iter().collect(), ..Head::default() };
        assert_eq!(head.headers_bytes(), "host: h\r\nx-y: \r\n".len());
    }

    #[test]
    fn heads_past_hyper_say_how_long_the_body_is() {
        let kept = Delivery { is_chunked: true, keeps_alive: true };
        let text = |bytes| String::from_utf8(bytes).expect("ascii");
        assert!(text(kept.value_head(5, 0)).ends_with("\r\ncontent-length: 5\r\n\r\n"));
        assert!(text(kept.records_head(0)).ends_with("\r\ntransfer-encoding: chunked\r\n\r\n"));
        let old = Delivery { is_chunked: false, keeps_alive: false };
        assert!(text(old.records_head(0)).ends_with("\r\nconnection: close\r\n\r\n"));
    }
}
