use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;

/// Which requests of a batch are `HEAD`, so that their answers have no body whatever their headers say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Heads {
    None,
    All,
    Each(Arc<[bool]>),
}

impl Heads {
    pub(crate) fn is_head(&self, index: usize) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Each(heads) => heads.get(index).copied().unwrap_or(false),
        }
    }
}

/// The kind of a request, by which figures are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "they say what they are")]
pub enum Method {
    Get,
    Head,
    Put,
    Post,
    Patch,
    Delete,
    /// Another one, or several in a batch.
    Other,
}

impl Method {
    fn of(bytes: &[u8]) -> Self {
        const NAMES: [(&[u8], Method); 6] = [
            (b"GET ", Method::Get),
            (b"PUT ", Method::Put),
            (b"POST ", Method::Post),
            (b"DELETE ", Method::Delete),
            (b"HEAD ", Method::Head),
            (b"PATCH ", Method::Patch),
        ];
        let found = NAMES.iter().find(|(name, _)| bytes.starts_with(name));
        found.map_or(Self::Other, |(_, method)| *method)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Other => "other",
        }
    }
}

/// In every request line; elsewhere it is rare.
static REQUEST_LINE_SIGN: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b" HTTP/1."));

/// What one piece of request bytes asks for: more than one request if a script pipelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) requests: u32,
    pub(crate) heads: Heads,
    pub(crate) method: Method,
}

/// A piece of bytes that is no sequence of whole requests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at {line}:{column} of the request")]
pub(crate) struct IncompleteRequest {
    reason: &'static str,
    line: usize,
    column: usize,
}

impl Batch {
    /// One request, whose method is read from its first bytes.
    pub(crate) fn single(bytes: &[u8]) -> Self {
        let method = Method::of(bytes);
        let heads = if method == Method::Head { Heads::All } else { Heads::None };
        Self { requests: 1, heads, method }
    }

    /// What a script made after its first request, which alone is checked, as in wrk: whole requests, or one that is taken as it
    /// is. Most are single ones, so they are not split before there is a sign of a second.
    pub(crate) fn of_script(bytes: &[u8]) -> Self {
        let may_be_several = REQUEST_LINE_SIGN.find_iter(bytes).nth(1).is_some();
        let several = may_be_several.then(|| Self::parse(bytes).ok()).flatten();
        several.unwrap_or_else(|| Self::single(bytes))
    }

    /// Splits the bytes into requests.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, IncompleteRequest> {
        let mut heads = Vec::new();
        let (mut at, mut method) = (0, Method::of(bytes));
        while at < bytes.len() || heads.is_empty() {
            heads.push(bytes[at..].starts_with(b"HEAD "));
            if Method::of(&bytes[at..]) != method {
                method = Method::Other;
            }
            at = end_of_request(bytes, at)?;
        }
        let requests = heads.len() as u32;
        let heads = match (heads.iter().any(|head| *head), heads.iter().all(|head| *head)) {
            (false, _) => Heads::None,
            (true, true) => Heads::All,
            (true, false) => Heads::Each(heads.into()),
        };
        Ok(Self { requests, heads, method })
    }
}

/// Where the request that starts at `start` ends.
fn end_of_request(bytes: &[u8], start: usize) -> Result<usize, IncompleteRequest> {
    let mut at = start;
    let mut length = 0_usize;
    let mut chunked = false;
    loop {
        let Some(newline) = memchr::memchr(b'\n', &bytes[at..]) else {
            return Err(error_at(bytes, bytes.len(), "incomplete request"));
        };
        let line = bytes[at..at + newline].trim_ascii_end();
        if at == start && !is_request_line(line) {
            return Err(error_at(bytes, at, "invalid request line"));
        }
        let line_at = at;
        at += newline + 1;
        if line.is_empty() {
            break;
        }
        if let Some(value) = header_value(line, b"content-length") {
            let digits = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
            length = digits.ok_or_else(|| error_at(bytes, line_at, "invalid content-length"))?;
        } else if let Some(value) = header_value(line, b"transfer-encoding") {
            chunked = value.eq_ignore_ascii_case(b"chunked");
        }
    }
    if chunked {
        let last = memchr::memmem::find(&bytes[at..], b"0\r\n\r\n");
        return last.map(|found| at + found + 5).ok_or_else(|| error_at(bytes, at, "incomplete request"));
    }
    match at.checked_add(length) {
        Some(end) if end <= bytes.len() => Ok(end),
        _ => Err(error_at(bytes, bytes.len(), "incomplete request")),
    }
}

/// `METHOD TARGET HTTP/1.x`
fn is_request_line(line: &[u8]) -> bool {
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let method = words.next().is_some_and(|word| word.iter().all(u8::is_ascii_uppercase));
    let target = words.next().is_some();
    method && target && words.next().is_some_and(|word| word.starts_with(b"HTTP/1."))
}

/// The trimmed value if the line is that header; `name` in lower case.
pub(super) fn header_value<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = line.split_at_checked(name.len())?;
    let value = rest.strip_prefix(b":")?;
    head.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn error_at(bytes: &[u8], at: usize, reason: &'static str) -> IncompleteRequest {
    let before = &bytes[..at];
    let line = 1 + memchr::memchr_iter(b'\n', before).count();
    let column = 1 + before.iter().rev().take_while(|byte| **byte != b'\n').count();
    IncompleteRequest { reason, line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_in_a_batch_are_counted() {
        let one = b"PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(Batch::parse(one), Ok(Batch { requests: 1, heads: Heads::None, method: Method::Put }));
        let three = [&one[..], b"GET / HTTP/1.1\r\n\r\n", one].concat();
        assert_eq!(Batch::parse(&three).map(|batch| batch.requests), Ok(3));
        let mixed = Batch::parse(b"GET / HTTP/1.1\r\n\r\nHEAD / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!((mixed.heads.is_head(0), mixed.heads.is_head(1)), (false, true));
        assert_eq!(mixed.method, Method::Other);
        assert_eq!(Batch::single(b"HEAD / HTTP/1.1\r\n\r\n").heads, Heads::All);
    }

    #[test]
    fn later_requests_of_a_script_are_counted_and_not_checked() {
        let count = |bytes: &[u8]| Batch::of_script(bytes).requests;
        let get = b"GET / HTTP/1.1\r\n\r\n";
        assert_eq!((count(get), count(&get.repeat(2)), count(&get.repeat(40))), (1, 2, 40));
        assert_eq!(count(b"POST / HTTP/1.1\r\nContent-Length: 14\r\n\r\nGET / HTTP/1.1"), 1, "a body");
        assert_eq!(count(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n"), 1, "no whole requests");
        assert_eq!(count(b"nonsense"), 1);
    }

    #[test]
    fn what_is_no_request_is_refused_with_its_place() {
        let reason = |bytes: &[u8]| Batch::parse(bytes).unwrap_err().to_string();
        assert_eq!(reason(b""), "incomplete request at 1:1 of the request");
        assert_eq!(reason(b"GET / HTTP/1.1\r\nHost: a\r\n"), "incomplete request at 3:1 of the request");
        assert_eq!(reason(b"hello\n"), "invalid request line at 1:1 of the request");
        assert!(
            reason(b"PUT / HTTP/1.1\r\nContent-Length: 5\r\n\r\nab").starts_with("incomplete request at 4:3")
        );
        assert!(
            reason(b"PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n")
                .starts_with("invalid content-length at 2:1")
        );
    }
}
