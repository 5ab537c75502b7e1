use std::fmt::Display;

use bytes::Bytes;
use ladoga_access::Denied;
use ladoga_http1::server::{ReplyHead, ReplyLength};
use ladoga_http1::{Method, StatusCode};
use ladoga_model::{Quote, VALUE_BYTES_MAX, Version};
use ladoga_runtime::OverCapacity;
use ladoga_service::{Error, StoreError};

use super::etag::ETag;
use super::response::{Answer, Field, RETRY_AFTER, TEXT};
use crate::auth::{Throttled, Unauthorized};

/// The head of a request may have this many bytes of headers.
pub(crate) const HEADERS_BYTES_MAX: usize = 16 << 10;
/// The longest request line: a key of 4,096 bytes takes three times as many if each is percent-encoded.
pub(crate) const REQUEST_LINE_BYTES_MAX: usize = 16 << 10;

/// An error answer: a status, and one line that says what was wrong and what was expected. Several lines only if the client
/// asked for them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    status: StatusCode,
    /// With the end of its last line.
    text: Bytes,
    /// The version of the newest cell, if there is one.
    version: Option<Version>,
    /// One more header field.
    field: Option<Field>,
    closes: bool,
}

impl Refusal {
    fn new(status: StatusCode, mut line: String) -> Refusal {
        line.push('\n');
        Refusal { status, text: Bytes::from(line), version: None, field: None, closes: false }
    }

    /// One that is always the same, and costs nothing to make.
    fn fixed(status: StatusCode, text: &'static str) -> Refusal {
        debug_assert!(text.ends_with('\n'));
        let text = Bytes::from_static(text.as_bytes());
        Refusal { status, text, version: None, field: None, closes: false }
    }

    /// `400`: the request is none, for the reason given.
    pub(crate) fn bad_request(reason: impl Display) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, reason.to_string())
    }

    /// `400`: there is no such path, but these.
    pub(crate) fn unknown_path(path: &[u8], known: &str) -> Refusal {
        let path = Quote::of(path);
        Refusal::bad_request(format_args!("the path {path} does not exist; expected {known}"))
    }

    /// `401`: nobody knows who asks.
    pub(crate) fn unauthorized(why: Unauthorized) -> Refusal {
        let challenge = match why {
            Unauthorized::Nothing | Unauthorized::Scheme => "Bearer",
            Unauthorized::Invalid => "Bearer error=\"invalid_token\"",
            Unauthorized::Peer => "Ladoga-Peer",
        };
        let field = Some(Field::new("www-authenticate", challenge));
        Refusal { field, ..Refusal::new(StatusCode::UNAUTHORIZED, why.to_string()) }
    }

    /// `403`: the token does not allow it.
    pub(crate) fn denied(denied: Denied) -> Refusal {
        Refusal::forbidden(denied)
    }

    /// `429`: the token has used what it may use.
    pub(crate) fn throttled(throttled: Throttled) -> Refusal {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, throttled.to_string()).after(throttled.wait_s())
    }

    /// `403`: not for this client.
    pub(crate) fn forbidden(reason: impl Display) -> Refusal {
        Refusal::new(StatusCode::FORBIDDEN, reason.to_string())
    }

    /// `404`: there is no value under the key; with the version of its deletion, if that is known.
    pub(crate) fn not_found(version: Option<Version>) -> Refusal {
        Refusal { version, ..Refusal::fixed(StatusCode::NOT_FOUND, "there is no value under this key\n") }
    }

    /// `404`: there is no such checkpoint, or it has no such file.
    pub(crate) fn no_checkpoint(reason: impl Display) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, reason.to_string())
    }

    /// `405`: the path exists, with other methods.
    pub(crate) fn method_not_allowed(method: &Method, allow: &'static str) -> Refusal {
        let method = Quote::of(method.as_str().as_bytes());
        let line = format!("the method {method} is not allowed for this path; expected {allow}");
        Refusal {
            field: Some(Field::new("allow", allow)),
            ..Refusal::new(StatusCode::METHOD_NOT_ALLOWED, line)
        }
    }

    /// `409`: another request of this kind is under way.
    pub(crate) fn conflict(reason: impl Display) -> Refusal {
        Refusal::new(StatusCode::CONFLICT, reason.to_string())
    }

    /// `408`: the request did not arrive within its time.
    pub(crate) fn request_timeout(part: &str, timeout_ms: u64) -> Refusal {
        let line = format!("the {part} of the request did not arrive within {timeout_ms} ms");
        Refusal::new(StatusCode::REQUEST_TIMEOUT, line).and_close()
    }

    /// `408`: a value that arrived slowly, while others wanted its room.
    pub(crate) fn displaced() -> Refusal {
        let text = "the value arrived too slowly, and the node needed its memory for other requests; send it again, faster or \
                    later\n";
        Refusal::fixed(StatusCode::REQUEST_TIMEOUT, text).and_close()
    }

    /// `408`: the same of a batch, which has no answer yet.
    pub(crate) fn displaced_batch() -> Refusal {
        let text = "the batch arrived too slowly, and the node needed its place for other requests; what had arrived of it may have \
                    been carried out; send it faster or later\n";
        Refusal::fixed(StatusCode::REQUEST_TIMEOUT, text).and_close()
    }

    /// `410`: the feed of changes cannot be followed from there on.
    pub(crate) fn gone(reason: impl Display, oldest: Box<str>) -> Refusal {
        let field = (!oldest.is_empty()).then(|| Field::new("ladoga-oldest", oldest));
        Refusal { field, ..Refusal::new(StatusCode::GONE, reason.to_string()) }
    }

    /// `411`: a value without its length.
    pub(crate) fn length_required() -> Refusal {
        let text = "the request has no Content-Length; expected the length of the value in bytes\n";
        Refusal::fixed(StatusCode::LENGTH_REQUIRED, text).and_close()
    }

    /// `412`: a condition is not met by the newest cell, which has this version.
    pub(crate) fn precondition_failed(reason: impl Display, version: Option<Version>) -> Refusal {
        Refusal { version, ..Refusal::new(StatusCode::PRECONDITION_FAILED, reason.to_string()) }
    }

    /// `413`: a value over its limit.
    pub(crate) fn value_too_large(bytes: u64) -> Refusal {
        let line = format!("the value has {bytes} bytes; at most {VALUE_BYTES_MAX} are allowed");
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, line).and_close()
    }

    /// `413`: operations that are to happen all or none, and take more than this.
    pub(crate) fn batch_too_large(what: impl Display) -> Refusal {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, what.to_string())
    }

    /// `426`: peers speak another protocol.
    pub(crate) fn upgrade_required(upgrade: &str) -> Refusal {
        let line = format!("this path is only for nodes of the cluster; expected `Upgrade: {upgrade}`");
        let field = Some(Field::new("upgrade", upgrade));
        Refusal { field, ..Refusal::new(StatusCode::UPGRADE_REQUIRED, line) }
    }

    /// `431`: headers, or a request line, over their limit.
    pub(crate) fn headers_too_large() -> Refusal {
        let line = format!(
            "the head of the request is too large; at most {HEADERS_BYTES_MAX} bytes of headers and a request line of the \
             same length are allowed"
        );
        Refusal::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, line).and_close()
    }

    /// `500`: the value is there, and cannot be read.
    pub(crate) fn unreadable(reason: impl Display) -> Refusal {
        Refusal::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            one_line(format!("the value cannot be read: {reason}")),
        )
    }

    /// `500`: what should not have failed did.
    pub(crate) fn internal(reason: impl Display) -> Refusal {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, one_line(reason.to_string()))
    }

    /// `501`: not on this system.
    pub(crate) fn not_implemented(reason: impl Display) -> Refusal {
        Refusal::new(StatusCode::NOT_IMPLEMENTED, one_line(reason.to_string()))
    }

    /// `503`: not now, for the reason given.
    pub(crate) fn unavailable(reason: impl Display) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, one_line(reason.to_string()))
    }

    /// The same with several reasons, one a line.
    pub(crate) fn unavailable_for(reasons: impl IntoIterator<Item = String>) -> Refusal {
        let lines: Vec<String> = reasons.into_iter().map(one_line).collect();
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, lines.join("\n"))
    }

    /// `503`: a bound is reached.
    pub(crate) fn over_capacity(bound: &str) -> Refusal {
        Refusal::unavailable(format_args!("over capacity: {bound}; send fewer requests at a time"))
    }

    /// `504`: too few replicas answered, for the reasons given.
    pub(crate) fn too_few_replicas(line: String) -> Refusal {
        Refusal::new(StatusCode::GATEWAY_TIMEOUT, one_line(line))
    }

    /// `507`: no room on the disk.
    pub(crate) fn no_room(reason: impl Display) -> Refusal {
        // A delete may read this, once there is no space even for deletes.
        let line = format!(
            "{reason}; reads still work, deletes do while some space is left for them, and writes will work again once there \
             is space"
        );
        Refusal::new(StatusCode::INSUFFICIENT_STORAGE, one_line(line))
    }

    /// The same, as the last answer of its connection.
    pub(crate) fn and_close(mut self) -> Refusal {
        self.closes = true;
        self
    }

    /// The same, for who is to come back after so many seconds.
    fn after(mut self, wait_s: u64) -> Refusal {
        self.field = Some(Field::new(RETRY_AFTER, wait_s.to_string()));
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// Its status, what was wrong, and the version of the newest cell, if there is one.
    pub(super) fn into_parts(self) -> (StatusCode, Bytes, Option<Version>) {
        let mut text = self.text;
        if text.ends_with(b"\n") {
            text.truncate(text.len() - 1);
        }
        (self.status, text, self.version)
    }

    #[cfg(test)]
    pub(crate) fn allow(&self) -> Option<&str> {
        self.field.as_ref().filter(|field| field.name() == "allow").map(Field::value)
    }

    /// How long its text is.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text.len() as u64
    }

    /// As the last bytes of a connection on which no request is understood any more.
    pub(crate) fn into_last_bytes(self, date: &str) -> Vec<u8> {
        let answer = Answer::from(self);
        let (content, mut fields) = (answer.body.content(), Default::default());
        let length = ReplyLength::Known(content.len() as u64);
        let head = ReplyHead { status: answer.status, fields: answer.fields(&mut fields), length, date };
        let mut bytes = Vec::new();
        head.write_last(&mut bytes);
        bytes.extend_from_slice(content);
        bytes
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Answer {
        let Refusal { status, text, version, field, closes } = refusal;
        let etag = version.map(ETag::from);
        Answer { status, etag, field, is_last: closes, ..Answer::content(TEXT, text) }
    }
}

/// The one place where errors of the service become answers.
impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        match error {
            Error::Store(error) => Refusal::from(error),
            Error::NoToken { .. } | Error::NotTogether => Refusal::bad_request(error),
            Error::ChangesGone { ref oldest, .. } => Refusal::gone(&error, oldest.clone()),
            Error::NoChanges | Error::NoBackups | Error::Unsupported(_) => Refusal::not_implemented(error),
            Error::NoCheckpoint { .. } | Error::NoLog(_) => Refusal::no_checkpoint(error),
            Error::Contended(what) => Refusal::over_capacity(what),
            Error::PreconditionFailed { current } => Refusal::precondition_failed(error, current),
            Error::NotFound { current } => Refusal::not_found(current),
            Error::NotANumber { .. } | Error::Overflow { .. } => Refusal::conflict(error),
            Error::TooFewReplicas(_)
            | Error::RangeIncomplete { .. }
            | Error::Overtaken
            | Error::Undecided
            | Error::TimeUnknown { .. }
            | Error::ClocksApart { .. }
            | Error::Starting { .. } => Refusal::too_few_replicas(error.to_string()),
            Error::CheckpointsTaken { wait_s: Some(wait_s), .. } => Refusal::unavailable(error).after(wait_s),
            Error::CheckpointsTaken { wait_s: None, .. }
            | Error::NotVouched { .. }
            | Error::ClockAhead(_)
            | Error::ClocksDiffer(_)
            | Error::TimeNotReserved
            | Error::Opening => Refusal::unavailable(error),
            Error::Draining => Refusal::unavailable(error).and_close(),
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Refusal {
        match error {
            StoreError::OverCapacity { bound } => Refusal::over_capacity(bound),
            StoreError::NoRoom { reason } => Refusal::no_room(reason),
            StoreError::Failed { reason } => Refusal::unavailable(reason),
            StoreError::Unreachable { reason } => Refusal::unavailable(reason),
            StoreError::Unreadable { reason } => Refusal::unreadable(reason),
            StoreError::TooFewReplicas(_) | StoreError::RangeBroken { .. } => {
                Refusal::too_few_replicas(error.to_string())
            }
            StoreError::TooLargeTogether { .. } | StoreError::TooManyTogether { .. } => {
                Refusal::batch_too_large(error)
            }
            StoreError::Fenced(_) => {
                Refusal::over_capacity("the key is being changed by a conditional request")
            }
        }
    }
}

impl From<OverCapacity> for Refusal {
    fn from(full: OverCapacity) -> Refusal {
        Refusal::over_capacity(full.bound)
    }
}

/// Errors of other crates are one line by custom; nothing that a client reads depends on it.
fn one_line(text: String) -> String {
    if text.chars().any(char::is_control) { text.replace(char::is_control, " ") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_temporary_says_when_to_come_back() {
        let answer = Answer::from(Refusal::unavailable("the node is opening"));
        let fields = [("content-type", TEXT.as_bytes()), ("retry-after", b"1")];
        assert_eq!(answer.fields(&mut Default::default()), fields);
        assert!(!answer.is_last);
    }

    #[test]
    fn a_method_is_answered_with_those_there_are() {
        let answer = Answer::from(Refusal::method_not_allowed(&Method::POST, "GET"));
        assert_eq!(
            answer.fields(&mut Default::default()),
            [("content-type", TEXT.as_bytes()), ("allow", b"GET")]
        );
    }

    #[test]
    fn the_last_bytes_are_a_whole_response() {
        let bytes = Refusal::request_timeout("head", 5).into_last_bytes("now");
        let text = String::from_utf8(bytes).expect("ascii");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{head}");
        assert!(
            head.contains(&format!("\r\ncontent-length: {}\r\nconnection: close\r\n", body.len())),
            "{head}"
        );
        assert_eq!(body.matches('\n').count(), 1);
        assert!(body.ends_with('\n'));
    }

    #[test]
    fn a_reason_of_many_lines_becomes_one() {
        let bytes = Refusal::unavailable("a\r\nb").into_last_bytes("now");
        assert!(bytes.ends_with(b"\r\n\r\na  b\n"));
    }
}
