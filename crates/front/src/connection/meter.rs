use std::cell::Cell;

use crate::http::HEADERS_BYTES_MAX;

/// The longest request line: a key of 4,096 bytes takes three times as much where each is percent-encoded.
const REQUEST_LINE_BYTES_MAX: usize = 16 << 10;

/// What hyper takes for a head, which the meter takes more exactly.
pub(super) const HEAD_BYTES_MAX: usize = REQUEST_LINE_BYTES_MAX + HEADERS_BYTES_MAX + (1 << 10);

/// Measures the head of a request while it arrives, without parsing it: request line and headers have a limit each,
/// and hyper knows one for both.
#[derive(Debug, Default)]
pub(super) struct Meter {
    bytes: Cell<usize>,
    /// Empty lines before it.
    empty_lines_bytes: Cell<usize>,
    /// Whether nothing came before it, so that no part of it can be missing here.
    is_first: Cell<bool>,
    /// The length of the request line, once its end was seen.
    line_bytes: Cell<Option<usize>>,
}

impl Meter {
    /// A head begins: with what arrives now if it is the first. Otherwise a part may have come with the request before it.
    pub(super) fn begin(&self, is_first: bool) {
        self.bytes.set(0);
        self.empty_lines_bytes.set(0);
        self.is_first.set(is_first);
        self.line_bytes.set(None);
    }

    /// Bytes of it, or behind it, arrived. Empty lines before it are none of it.
    pub(super) fn arrived(&self, bytes: &[u8]) {
        let bytes = if self.bytes.get() == 0 { self.without_empty_lines(bytes) } else { bytes };
        if self.line_bytes.get().is_none() {
            let end = bytes.iter().position(|&byte| byte == b'\n');
            self.line_bytes.set(end.map(|end| self.bytes.get() + end + 1));
        }
        self.bytes.set(self.bytes.get() + bytes.len());
    }

    /// How much of it, and of what is behind it, has arrived at least. Where it is not the first, what looks like empty
    /// lines before it may be its own.
    pub(super) fn bytes(&self) -> usize {
        let empty_lines_bytes = if self.is_first.get() { 0 } else { self.empty_lines_bytes.get() };
        self.bytes.get() + empty_lines_bytes
    }

    /// Whether it is longer than it may be, given that it has not ended yet.
    pub(super) fn is_too_long(&self) -> bool {
        match self.line_bytes.get() {
            Some(line_bytes) => self.bytes.get() - line_bytes > HEADERS_BYTES_MAX,
            None => self.bytes.get() > REQUEST_LINE_BYTES_MAX,
        }
    }

    fn without_empty_lines<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let start = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')).unwrap_or(bytes.len());
        self.empty_lines_bytes.set(self.empty_lines_bytes.get() + start);
        &bytes[start..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_measured_without_the_request_line() {
        let meter = Meter::default();
        meter.begin(true);
        meter.arrived(b"GET /");
        meter.arrived(&[b'k'; 10_000]);
        meter.arrived(b" HTTP/1.1\r\nx: ");
        meter.arrived(&[b'v'; HEADERS_BYTES_MAX - 3]);
        assert!(!meter.is_too_long());
        meter.arrived(b"v");
        assert!(meter.is_too_long());
        meter.begin(true);
        assert!(!meter.is_too_long());
    }

    #[test]
    fn empty_lines_before_a_head_are_none_of_it() {
        let meter = Meter::default();
        meter.begin(true);
        meter.arrived(b"\r");
        meter.arrived(b"\n\r\nGET / HTTP/1.1\r\n");
        meter.arrived(b"\r\n");
        assert_eq!(meter.bytes(), "GET / HTTP/1.1\r\n\r\n".len());
        meter.arrived(&[b'v'; HEADERS_BYTES_MAX - 2]);
        assert!(!meter.is_too_long());
    }

    #[test]
    fn what_looks_like_empty_lines_may_be_the_end_of_a_head_that_came_behind_another() {
        let meter = Meter::default();
        meter.begin(false);
        meter.arrived(b"\r\n\r\n");
        meter.arrived(b"GET /");
        assert_eq!(meter.bytes(), "\r\n\r\nGET /".len());
    }

    #[test]
    fn a_request_line_is_measured_too() {
        let meter = Meter::default();
        meter.begin(true);
        meter.arrived(&[b'G'; REQUEST_LINE_BYTES_MAX]);
        assert!(!meter.is_too_long());
        meter.arrived(b"G");
        assert!(meter.is_too_long());
    }
}
