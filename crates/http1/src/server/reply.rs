use http::StatusCode;

/// How long an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyLength {
    /// So many bytes.
    Known(u64),
    /// Unknown: it is sent in chunks, or up to the end of the connection if the client does not know chunks.
    Unknown,
}

/// The head of an answer.
#[derive(Debug, Clone, Copy)]
pub struct ReplyHead<'a> {
    /// What became of the request.
    pub status: StatusCode,
    /// Header fields, by lower-case names; not those that say how long the answer is and what becomes of the connection.
    pub fields: &'a [(&'a str, &'a [u8])],
    /// How long it is.
    pub length: ReplyLength,
    /// When it was made, as RFC 9110, 5.6.7 wants it.
    pub date: &'a str,
}

/// What an answer says about its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Nothing, which keeps an HTTP/1.1 connection open.
    Unsaid,
    /// `keep-alive`, which keeps an HTTP/1.0 connection open too.
    KeepAlive,
    /// It ends.
    Close,
}

/// The interim answer for a client that waits before it sends the body.
pub(crate) const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const COMMON_LINES: [(StatusCode, &[u8]); 4] = [
    (StatusCode::OK, b"HTTP/1.1 200 OK\r\n"),
    (StatusCode::CREATED, b"HTTP/1.1 201 Created\r\n"),
    (StatusCode::ACCEPTED, b"HTTP/1.1 202 Accepted\r\n"),
    (StatusCode::NOT_FOUND, b"HTTP/1.1 404 Not Found\r\n"),
];

impl ReplyHead<'_> {
    /// Writes it as the last of a connection, on which nothing is understood any more.
    pub fn write_last(&self, out: &mut Vec<u8>) {
        self.write(out, true, Persistence::Close);
    }

    /// Writes it. `is_chunked` is how an answer of unknown length is sent.
    pub(crate) fn write(&self, out: &mut Vec<u8>, is_chunked: bool, persistence: Persistence) {
        match COMMON_LINES.iter().find(|(status, _)| *status == self.status) {
            Some((_, line)) => out.extend_from_slice(line),
            None => {
                let reason = self.status.canonical_reason().unwrap_or("Unknown");
                extend(
                    out,
                    &[b"HTTP/1.1 ", self.status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"],
                );
            }
        }
        for (name, value) in self.fields {
            debug_assert!(
                value.iter().all(|&byte| byte == b'\t' || !byte.is_ascii_control()),
                "{name}: {}",
                value.escape_ascii()
            );
            extend(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
        }
        match self.length {
            // RFC 9110, 8.6: a `204` has no body that could have a length; the length in a `304` would be that of a body which
            // is not sent.
            _ if self.status == StatusCode::NO_CONTENT || self.status == StatusCode::NOT_MODIFIED => {}
            ReplyLength::Known(bytes) => {
                out.extend_from_slice(b"content-length: ");
                extend_decimal(out, bytes);
                out.extend_from_slice(b"\r\n");
            }
            ReplyLength::Unknown if is_chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            ReplyLength::Unknown => {}
        }
        // RFC 9110, 7.8: an `Upgrade` is named in `Connection`.
        let is_upgrade = self.status == StatusCode::UPGRADE_REQUIRED;
        out.extend_from_slice(match (persistence, is_upgrade) {
            (Persistence::Unsaid, false) => b"",
            (Persistence::Unsaid, true) => b"connection: upgrade\r\n",
            (Persistence::KeepAlive, false) => b"connection: keep-alive\r\n",
            (Persistence::KeepAlive, true) => b"connection: keep-alive, upgrade\r\n",
            (Persistence::Close, false) => b"connection: close\r\n",
            (Persistence::Close, true) => b"connection: close, upgrade\r\n",
        });
        extend(out, &[b"date: ", self.date.as_bytes(), b"\r\n\r\n"]);
    }
}

fn extend(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

fn extend_decimal(out: &mut Vec<u8>, number: u64) {
    const DIGITS_MAX: usize = 20;
    let (mut digits, mut start, mut left) = ([0; DIGITS_MAX], DIGITS_MAX, number);
    loop {
        start -= 1;
        digits[start] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(status: StatusCode, length: ReplyLength, persistence: Persistence) -> String {
        let head = ReplyHead { status, fields: &[("allow", b"GET")], length, date: "now" };
        let mut out = Vec::new();
        head.write(&mut out, true, persistence);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_head_says_how_long_the_body_is() {
        let known = written(StatusCode::OK, ReplyLength::Known(120), Persistence::Unsaid);
        assert_eq!(known, "HTTP/1.1 200 OK\r\nallow: GET\r\ncontent-length: 120\r\ndate: now\r\n\r\n");
        let chunked = written(StatusCode::IM_A_TEAPOT, ReplyLength::Unknown, Persistence::Close);
        let expected = "HTTP/1.1 418 I'm a teapot\r\nallow: GET\r\ntransfer-encoding: chunked\r\nconnection: close\r\ndate: now\r\n\r\n";
        assert_eq!(chunked, expected);
        for status in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
            let head = written(status, ReplyLength::Known(0), Persistence::Unsaid);
            assert!(!head.contains("content-length"), "{head}");
        }
        assert!(
            written(StatusCode::OK, ReplyLength::Known(0), Persistence::KeepAlive)
                .contains(": keep-alive\r\n")
        );
        for (persistence, expected) in [
            (Persistence::Unsaid, "connection: upgrade"),
            (Persistence::KeepAlive, "connection: keep-alive, upgrade"),
            (Persistence::Close, "connection: close, upgrade"),
        ] {
            let head = written(StatusCode::UPGRADE_REQUIRED, ReplyLength::Known(0), persistence);
            assert!(head.contains(&format!("\r\n{expected}\r\n")), "{head}");
        }
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut out = Vec::new();
            extend_decimal(&mut out, number);
            assert_eq!(String::from_utf8(out).expect("digits"), number.to_string());
        }
    }
}
