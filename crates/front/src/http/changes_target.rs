use bytes::Bytes;
use ladoga_http1::server::Request;
use ladoga_model::Quote;
use ladoga_service::{Followed, KeySpan, Since};

use super::accept::prefers_events;
use super::query::parameters;
use super::range_target::{Bounds, bound};
use super::target::TargetError;

/// A request waits for changes no longer than this, in seconds.
const WAIT_S_MAX: u64 = 300;

/// What is to be followed, and how it is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChangesTarget {
    pub(crate) followed: Followed,
    /// Whether the values are wanted, and not only the keys.
    pub(crate) has_values: bool,
    /// Whether they are to be server-sent events.
    pub(crate) is_events: bool,
    /// If one answer is wanted and no stream: for how long it may wait for something to tell, in seconds.
    pub(crate) wait_s: Option<u64>,
}

impl ChangesTarget {
    pub(crate) fn parse(request: &Request) -> Result<ChangesTarget, TargetError> {
        let query = request.query();
        let [start, end, prefix, since, values, scope] =
            parameters(query, ["start", "end", "prefix", "since", "values", "scope"])?;
        super::range_target::scope(scope.as_deref())?;
        let has_values = super::range_target::flag("values", values.as_deref())?.unwrap_or(true);
        let (start, end, prefix) = (bound("start", start)?, bound("end", end)?, bound("prefix", prefix)?);
        // Where an EventSource was when its connection broke; its URL is the one of its first request.
        let last_id = request.fields("last-event-id").find(|id| !id.is_empty());
        let since = last_id.or(since.as_deref());
        let mut wait_s = None;
        for preference in request.fields("prefer").flat_map(|field| field.split(|&byte| byte == b',')) {
            wait_s = wait_s.or(wait(preference)?);
        }
        Ok(ChangesTarget {
            followed: Followed {
                span: span(Bounds { start, end, prefix, after: None }),
                since: since_of(since),
            },
            has_values,
            is_events: prefers_events(request.fields("accept")),
            wait_s,
        })
    }
}

fn span(bounds: Bounds) -> KeySpan {
    // All keys, if nothing is said.
    bounds.span(false).unwrap_or_else(|end| KeySpan {
        start: Bytes::new(),
        end: end.map(Bytes::from),
        is_reverse: false,
    })
}

fn since_of(text: Option<&[u8]>) -> Since {
    match text {
        None => Since::Now,
        Some(b"0") => Since::Beginning,
        Some(token) => Since::Token(Bytes::copy_from_slice(token)),
    }
}

/// How long is to be waited, if a preference is about that: RFC 7240, 4.3.
fn wait(preference: &[u8]) -> Result<Option<u64>, TargetError> {
    let preference = preference.split(|&byte| byte == b';').next().unwrap_or_default();
    let mut parts = preference.splitn(2, |&byte| byte == b'=').map(<[u8]>::trim_ascii);
    if !parts.next().unwrap_or_default().eq_ignore_ascii_case(b"wait") {
        return Ok(None);
    }
    let text = parts.next().unwrap_or_default();
    let unquoted = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    let is_number = unquoted.iter().all(u8::is_ascii_digit);
    let seconds =
        str::from_utf8(unquoted).ok().filter(|_| is_number).and_then(|text| text.parse::<u64>().ok());
    match seconds {
        Some(seconds) => Ok(Some(seconds.min(WAIT_S_MAX))),
        None => Err(TargetError::Word {
            name: "Prefer: wait",
            found: Quote::of(text),
            expected: "a whole number of seconds",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_a_number_of_seconds() {
        assert_eq!(wait(b" wait=10"), Ok(Some(10)));
        assert_eq!(wait(b"Wait = \"0\" ; foo=bar"), Ok(Some(0)));
        assert_eq!(wait(b"wait=100000"), Ok(Some(WAIT_S_MAX)));
        assert_eq!(wait(b"respond-async"), Ok(None));
        assert_eq!(wait(b""), Ok(None));
        for wrong in [&b"wait"[..], b"wait=", b"wait=-1", b"wait=+1", b"wait=1.5", b"wait=\xff", b"wait=\""] {
            assert!(wait(wrong).is_err(), "{}", wrong.escape_ascii());
        }
    }

    #[test]
    fn it_begins_now_with_everything_or_behind_a_token() {
        assert_eq!(since_of(None), Since::Now);
        assert_eq!(since_of(Some(b"0")), Since::Beginning);
        assert_eq!(since_of(Some(b"00")), Since::Token(Bytes::from_static(b"00")));
        assert_eq!(since_of(Some(b"")), Since::Token(Bytes::new()));
    }

    #[test]
    fn without_bounds_it_is_about_all_keys() {
        let all = KeySpan { start: Bytes::new(), end: None, is_reverse: false };
        let none = Bounds { start: None, end: None, prefix: None, after: None };
        assert_eq!(span(none), all);
        let to = Bounds { start: None, end: Some(b"m".to_vec()), prefix: None, after: None };
        assert_eq!(span(to), KeySpan { end: Some(Bytes::from_static(b"m")), ..all });
    }
}
