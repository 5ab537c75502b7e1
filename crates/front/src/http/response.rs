use bytes::Bytes;
use ladoga_http1::StatusCode;
use ladoga_model::Version;

use super::body::Body;
use super::etag::ETag;

/// Of values, which are any bytes.
pub(crate) const OCTETS: &str = "application/octet-stream";
/// Of lines for people, and of numbers.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// After how many seconds a client should come back.
pub(super) const RETRY_AFTER: &str = "retry-after";
/// How long a client that was refused for lack of capacity should wait before it retries.
const RETRY_AFTER_SECONDS: &str = "1";

/// What is said of changes: neither a cache nor a proxy that gathers what it passes on is of use.
pub(crate) const LIVE: [(&str, &[u8]); 2] = [("cache-control", b"no-store"), ("x-accel-buffering", b"no")];

/// A header field that few answers have: the others should not be larger for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field(Box<(&'static str, Box<str>)>);

impl Field {
    /// By its lower-case name.
    pub(crate) fn new(name: &'static str, value: impl Into<Box<str>>) -> Field {
        Field(Box::new((name, value.into())))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.0
    }

    pub(crate) fn value(&self) -> &str {
        &self.0.1
    }
}

/// What a request is answered with, if that is in memory.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<&'static str>,
    /// The version of the cell that it is about.
    pub(crate) etag: Option<ETag>,
    /// When the value expires, in milliseconds since 1970, if it does.
    pub(crate) expires: Option<Box<str>>,
    /// One more header field.
    pub(crate) field: Option<Field>,
    pub(crate) body: Body,
    /// Whether the connection ends with it.
    pub(crate) is_last: bool,
    /// Whether neither a cache nor a proxy that gathers what it passes on is of use.
    pub(crate) is_live: bool,
}

// It is moved some ten times, which up to this size needs no call of `memcpy`.
const _: () = assert!(size_of::<Answer>() <= 128, "an answer is small");

impl Answer {
    /// As many header fields as there may be.
    pub(crate) const FIELDS_MAX: usize = 7;

    /// `200` with a value.
    pub(crate) fn value(value: Bytes) -> Answer {
        Answer { content_type: Some(OCTETS), body: Body::Full(value), ..Answer::empty(StatusCode::OK) }
    }

    /// `200` as for a value of this length, without it.
    pub(crate) fn value_withheld(bytes: u64) -> Answer {
        Answer { content_type: Some(OCTETS), body: Body::Withheld(bytes), ..Answer::empty(StatusCode::OK) }
    }

    /// `200` with content of another type.
    pub(crate) fn content(content_type: &'static str, content: impl Into<Bytes>) -> Answer {
        let body = Body::Full(content.into());
        Answer { content_type: Some(content_type), body, ..Answer::empty(StatusCode::OK) }
    }

    /// `202` with text.
    pub(crate) fn accepted(text: String) -> Answer {
        Answer { status: StatusCode::ACCEPTED, ..Answer::content(TEXT, text) }
    }

    /// An answer without a body.
    pub(crate) fn empty(status: StatusCode) -> Answer {
        let (content_type, etag, expires, field) = (None, None, None, None);
        Answer {
            status,
            content_type,
            etag,
            expires,
            field,
            body: Body::Empty,
            is_last: false,
            is_live: false,
        }
    }

    /// The same about a cell of this version.
    pub(crate) fn with_version(self, version: Version) -> Answer {
        Answer { etag: Some(ETag::from(version)), ..self }
    }

    /// The header fields, in `room`.
    pub(crate) fn fields<'r>(
        &'r self,
        room: &'r mut [(&'static str, &'r [u8]); Answer::FIELDS_MAX],
    ) -> &'r [(&'static str, &'r [u8])] {
        let says_when = self.field.as_ref().is_some_and(|field| field.name() == RETRY_AFTER);
        let is_temporary = self.status == StatusCode::SERVICE_UNAVAILABLE && !says_when;
        let retry_after = is_temporary.then_some(RETRY_AFTER_SECONDS);
        let fields = [
            ("content-type", self.content_type.map(str::as_bytes)),
            (RETRY_AFTER, retry_after.map(str::as_bytes)),
            ("etag", self.etag.as_ref().map(ETag::as_bytes)),
            ("ladoga-expires", self.expires.as_deref().map(str::as_bytes)),
            self.field.as_ref().map_or(("", None), |field| (field.name(), Some(field.value().as_bytes()))),
            (LIVE[0].0, self.is_live.then_some(LIVE[0].1)),
            (LIVE[1].0, self.is_live.then_some(LIVE[1].1)),
        ];
        let mut count = 0;
        for (name, value) in fields {
            if let Some(value) = value {
                room[count] = (name, value);
                count += 1;
            }
        }
        &room[..count]
    }
}
