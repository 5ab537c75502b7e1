use std::io::{self, ErrorKind};

use ureq::Body;
use ureq::http::Response;

/// The longest refusal that is read.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;
/// What is said of credentials, whichever status a server has for it.
const CREDENTIAL_CODES: [&str; 4] =
    ["InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "ExpiredToken"];
/// How servers begin to say that of a signed URL, with which all requests are made: the code is only `AccessDenied`.
const CLOCK_MESSAGES: [&str; 2] = ["Request is not valid yet", "Request has expired"];
/// How much of what a server says is repeated.
const MESSAGE_CHARS_MAX: usize = 300;

/// Why a request did not do what it was to do.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Another attempt may help.
    Passing(io::Error),
    /// It would not.
    Lasting(io::Error),
}

impl Failed {
    pub(crate) fn into_error(self) -> io::Error {
        match self {
            Failed::Passing(error) | Failed::Lasting(error) => error,
        }
    }

    /// An answer that cannot be right.
    pub(crate) fn nonsense(what: &str) -> Failed {
        Failed::Lasting(io::Error::new(ErrorKind::InvalidData, format!("the server answers {what}")))
    }
}

impl From<ureq::Error> for Failed {
    fn from(error: ureq::Error) -> Failed {
        use ureq::Error as E;
        match error {
            E::Io(error) => Failed::Passing(error),
            E::Timeout(_) => Failed::Passing(io::Error::new(ErrorKind::TimedOut, "the server says nothing")),
            E::HostNotFound | E::ConnectionFailed => {
                Failed::Passing(io::Error::new(ErrorKind::NotConnected, error.to_string()))
            }
            error => Failed::Lasting(io::Error::other(error.to_string())),
        }
    }
}

/// What an answer says that is none of those that were expected.
pub(crate) fn refused(mut response: Response<Body>, bucket: &str) -> Failed {
    let status = response.status().as_u16();
    let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (region, location) = (field("x-amz-bucket-region"), field("location"));
    let body = response.body_mut().with_config().limit(REFUSAL_BYTES_MAX).read_to_vec().unwrap_or_default();
    of_status(status, (region.as_deref(), location.as_deref()), &String::from_utf8_lossy(&body), bucket)
}

fn of_status(
    status: u16,
    (region, location): (Option<&str>, Option<&str>),
    body: &str,
    bucket: &str,
) -> Failed {
    let (code, message) = (element(body, "Code"), element(body, "Message"));
    let said = match (code, message) {
        (Some(code), Some(message)) => format!("{code}: {}", line(message)),
        (Some(code), None) => code.to_owned(),
        _ => format!("status {status}"),
    };
    let error = |kind, text: String| io::Error::new(kind, text);
    let is_about_us = code.is_some_and(|code| CREDENTIAL_CODES.contains(&code));
    let is_about_time = match (code, message) {
        (Some("RequestTimeTooSkewed"), _) => true,
        (Some("AccessDenied"), Some(message)) => {
            CLOCK_MESSAGES.iter().any(|begin| message.starts_with(begin))
        }
        _ => false,
    };
    match (status, code) {
        // A signature has a time.
        _ if is_about_time => Failed::Lasting(error(
            ErrorKind::PermissionDenied,
            format!(
                "the clock of this machine and that of the server differ too much ({said}): set the clock"
            ),
        )),
        _ if is_about_us || matches!(status, 401 | 403) => Failed::Lasting(error(
            ErrorKind::PermissionDenied,
            format!("the server does not let us ({said}): see AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        )),
        (404, Some("NoSuchBucket")) => {
            Failed::Lasting(error(ErrorKind::Other, format!("there is no bucket {bucket}: make it first")))
        }
        (404, None | Some("NoSuchKey")) => {
            Failed::Lasting(error(ErrorKind::NotFound, "there is no such object".to_owned()))
        }
        // Somebody else writes at the same moment, and nobody knows yet who was first.
        (409, Some("ConditionalRequestConflict" | "OperationAborted")) => Failed::Passing(error(
            ErrorKind::Other,
            format!("another process writes the same object ({said})"),
        )),
        // Somebody else has written meanwhile.
        (409 | 412, _) => Failed::Lasting(error(ErrorKind::AlreadyExists, said)),
        (301 | 307 | 308, _) => {
            let text = match (region, location) {
                (Some(region), _) => {
                    format!("the bucket {bucket} is in another region: expected AWS_REGION={region}")
                }
                // No query: it may be signed.
                (None, Some(location)) => format!(
                    "the server sends us to {}: expected AWS_REGION or AWS_ENDPOINT_URL of the bucket {bucket}",
                    line(location.split('?').next().unwrap_or_default())
                ),
                (None, None) => format!("the bucket {bucket} is in another region: expected its AWS_REGION"),
            };
            Failed::Lasting(error(ErrorKind::Other, text))
        }
        // Amazon's answer to an upload that stalled, and that of servers between.
        (400, Some("RequestTimeout")) | (408 | 429 | 500 | 502..=504, _) => {
            Failed::Passing(error(ErrorKind::Other, format!("the server cannot do it now ({said})")))
        }
        _ => Failed::Lasting(error(ErrorKind::Other, format!("the server refuses ({said})"))),
    }
}

/// The text of the first element of this name: enough for the two that every refusal has.
fn element<'b>(body: &'b str, name: &str) -> Option<&'b str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0).filter(|text| !text.is_empty())
}

fn line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(MESSAGE_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Failed {
        of_status(status, (Some("eu-north-1"), Some("https://other/lake?X-Amz-Signature=1")), body, "lake")
    }

    #[test]
    fn a_refusal_tells_what_to_do() {
        let body = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>It is\nwrong</Message></Error>";
        let denied = of(403, body).into_error();
        assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
        assert!(denied.to_string().contains("SignatureDoesNotMatch: It is wrong"), "{denied}");
        assert!(
            of(404, "<Error><Code>NoSuchBucket</Code></Error>")
                .into_error()
                .to_string()
                .contains("no bucket lake")
        );
        assert_eq!(of(404, "<Error><Code>NoSuchKey</Code></Error>").into_error().kind(), ErrorKind::NotFound);
        let unknown = of(404, "<Error><Code>InvalidAccessKeyId</Code></Error>").into_error();
        assert_eq!(unknown.kind(), ErrorKind::PermissionDenied);
        assert_eq!(of(412, "").into_error().kind(), ErrorKind::AlreadyExists);
        assert!(of(301, "").into_error().to_string().contains("AWS_REGION=eu-north-1"));
        let sent = of_status(307, (None, Some("https://other/lake?X-Amz-Signature=1")), "", "lake");
        let sent = sent.into_error().to_string();
        assert!(sent.contains("sends us to https://other/lake: expected AWS_REGION or"), "{sent}");
        assert!(of(418, "no XML").into_error().to_string().contains("status 418"));
    }

    /// It was said to be the credentials.
    #[test]
    fn a_clock_that_is_wrong_is_named() {
        for (code, message) in [
            ("RequestTimeTooSkewed", "The difference is too large"),
            ("AccessDenied", "Request has expired"),
            ("AccessDenied", "Request is not valid yet"),
        ] {
            let body = format!("<Error><Code>{code}</Code><Message>{message}</Message></Error>");
            let Failed::Lasting(skewed) = of(403, &body) else { panic!("no attempt helps") };
            let told = skewed.to_string();
            assert!(told.contains("set the clock") && told.contains(&format!("{code}: {message}")), "{told}");
            assert!(!told.contains("AWS_"), "{told}");
        }
        let denied = of(403, "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>");
        assert!(denied.into_error().to_string().contains("AWS_ACCESS_KEY_ID"));
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(matches!(of(status, ""), Failed::Passing(_)), "{status}");
        }
        let conflict = "<Error><Code>ConditionalRequestConflict</Code><Message>Again</Message></Error>";
        assert!(matches!(of(409, conflict), Failed::Passing(_)));
        let stalled = "<Error><Code>RequestTimeout</Code><Message>Your socket connection was not read from</Message></Error>";
        assert!(matches!(of(400, stalled), Failed::Passing(_)));
        for status in [400, 401, 403, 404, 409, 412, 501] {
            assert!(matches!(of(status, ""), Failed::Lasting(_)), "{status}");
        }
    }
}
