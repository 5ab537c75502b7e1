use super::Url;

/// The longest reason that is printed.
const REASON_BYTES_MAX: usize = 4 << 10;
/// The longest content type that is printed.
const TYPE_BYTES_MAX: usize = 64;

/// Why a request was refused, in one line: who answered with which status, and the reason, if that is text. What anybody else than a node
/// sends instead, such as a page, is left out.
pub(crate) fn refusal(url: &Url, status: u16, content_type: Option<&str>, body: &[u8]) -> String {
    let media_type = content_type.map(|text| text.split(';').next().unwrap_or_default().trim());
    let is_text = media_type.map(str::to_ascii_lowercase).map_or(!body.starts_with(b"<"), |media_type| {
        media_type == "text/plain" || media_type == "application/json" || media_type.ends_with("+json")
    });
    let reason = printable(String::from_utf8_lossy(body).trim(), REASON_BYTES_MAX);
    match media_type {
        _ if reason.is_empty() => format!("{url} answered {status}"),
        _ if is_text && status == 401 && url.bearer.is_none() && !url.token_hint.is_empty() => {
            format!("{url} answered {status}: {reason}. Give one by {}", url.token_hint)
        }
        _ if is_text => format!("{url} answered {status}: {reason}"),
        Some(media_type) => {
            let media_type = printable(media_type, TYPE_BYTES_MAX);
            format!("{url} answered {status} with {media_type} instead of a reason: it may be no Ladoga node")
        }
        None => format!("{url} answered {status} without a reason: it may be no Ladoga node"),
    }
}

/// A text that moves no cursor, and takes no more than so many bytes and an ellipsis.
pub(crate) fn printable(text: &str, bytes_max: usize) -> String {
    let mut out = String::new();
    for char in text.chars() {
        let before = out.len();
        match char {
            '"' | '\'' | '\\' => out.push(char),
            _ => out.extend(char.escape_debug()),
        }
        if out.len() > bytes_max {
            out.truncate(before);
            out.push('…');
            break;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::Bearer;
    use super::*;

    fn said(content_type: Option<&str>, body: &[u8]) -> String {
        refusal(&Url::parse("http://h:1").expect("a URL"), 404, content_type, body)
    }

    #[test]
    fn a_refusal_has_a_url_a_status_and_a_reason_that_is_text() {
        for text in
            ["text/plain; charset=utf-8", "Text/Plain", "application/json", "application/problem+json"]
        {
            assert_eq!(said(Some(text), b"it is 'none'\n"), "http://h:1 answered 404: it is 'none'");
        }
        assert_eq!(said(Some("text/plain"), b""), "http://h:1 answered 404");
        assert_eq!(said(None, b""), "http://h:1 answered 404");
        assert_eq!(said(None, b"none"), "http://h:1 answered 404: none");
        let page = said(Some("text/html; charset=utf-8"), b"<html>");
        assert_eq!(
            page,
            "http://h:1 answered 404 with text/html instead of a reason: it may be no Ladoga node"
        );
        assert!(said(None, b"<html>").ends_with("without a reason: it may be no Ladoga node"));
    }

    #[test]
    fn who_has_no_token_is_told_how_to_give_one() {
        let url = Url::parse("http://h:1").expect("a URL");
        let url = Url { token_hint: "--token-file FILE", ..url };
        let said = |url: &Url, status| refusal(url, status, Some("text/plain"), b"it needs a token");
        assert_eq!(
            said(&url, 401),
            "http://h:1 answered 401: it needs a token. Give one by --token-file FILE"
        );
        assert_eq!(said(&url, 403), "http://h:1 answered 403: it needs a token");
        let with = Url { bearer: Bearer::parse("ldg_x"), ..url };
        assert_eq!(said(&with, 401), "http://h:1 answered 401: it needs a token");
    }

    #[test]
    fn a_reason_is_one_line_of_bounded_length() {
        assert_eq!(printable("a\nb\x1b[2J\u{202e}\u{e9}", 100), "a\\nb\\u{1b}[2J\\u{202e}\u{e9}");
        assert_eq!(printable("abcdef", 6), "abcdef");
        assert_eq!(printable("abcdefg", 6), "abcdef…");
        assert_eq!(printable("abcde\n", 6), "abcde…");
        let long = said(Some("text/plain"), &[b'x'; 2 * REASON_BYTES_MAX]);
        assert!(long.len() < REASON_BYTES_MAX + 100 && long.ends_with("x…"), "{}", long.len());
    }
}
