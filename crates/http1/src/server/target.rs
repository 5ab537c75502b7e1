use bytes::{Buf, Bytes};
use http::Uri;

use super::asker::{Span, span};
use super::characters::is_of_path;

/// The target of a request.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// A path, and perhaps a query behind it, by their places in the head, of characters that may be in both.
    Plain { path: Span, query: Span },
    /// Any other form (RFC 9112, 3.2), and any other character.
    Other(Box<Uri>),
}

impl Target {
    /// Of the head, these bytes; `None` if they are no target. A fragment is none (RFC 9112, 3.2): what is behind a `#` would be lost.
    pub(super) fn of(head: &Bytes, target: std::ops::Range<usize>) -> Option<Target> {
        let bytes = &head[target.clone()];
        let path_bytes = bytes.iter().position(|&byte| !is_of_path(byte)).unwrap_or(bytes.len());
        let (path, rest) = bytes.split_at(path_bytes);
        let query = rest.strip_prefix(b"?").unwrap_or(rest);
        let is_plain =
            path.first() == Some(&b'/') && query.iter().all(|&byte| is_of_path(byte) || byte == b'?');
        if !is_plain {
            if bytes.contains(&b'#') {
                return None;
            }
            return Uri::from_maybe_shared(head.slice(target)).ok().map(|uri| Target::Other(Box::new(uri)));
        }
        Some(Target::Plain { path: span(head, path), query: span(head, query) })
    }

    pub(super) fn path_and_query<'t>(&'t self, head: &'t [u8]) -> &'t [u8] {
        match self {
            // The question mark of an empty query, too.
            Target::Plain { path: (start, _), query: (_, end) } => &head[*start as usize..*end as usize],
            Target::Other(uri) => uri.path_and_query().map_or("", |both| both.as_str()).as_bytes(),
        }
    }

    /// The host and the port that are asked for, if the target names them.
    pub(super) fn authority(&self) -> Option<&[u8]> {
        let Target::Other(uri) = self else { return None };
        // Without the name of a user before it.
        uri.authority()?.as_str().rsplit('@').next().map(str::as_bytes)
    }

    pub(super) fn path<'t>(&'t self, head: &'t [u8]) -> &'t [u8] {
        match self {
            Target::Plain { path: (start, end), .. } => &head[*start as usize..*end as usize],
            Target::Other(uri) => uri.path().as_bytes(),
        }
    }

    pub(super) fn query<'t>(&'t self, head: &'t [u8]) -> &'t [u8] {
        match self {
            Target::Plain { query: (start, end), .. } => &head[*start as usize..*end as usize],
            Target::Other(uri) => uri.query().unwrap_or("").as_bytes(),
        }
    }

    /// The query, in what the head was in.
    pub(super) fn into_query(self, mut head: Bytes) -> Bytes {
        match self {
            Target::Plain { query: (start, end), .. } => {
                head.truncate(end as usize);
                head.advance(start as usize);
                head
            }
            Target::Other(uri) => Bytes::copy_from_slice(uri.query().unwrap_or("").as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_by_its_places_is_what_a_uri_says() {
        let prefix = "GET ";
        let plain =
            ["/", "/?", "/a", "/a?", "/a?b=c", "/a?b?c", "//a/?/", "/%zz?%", "/v0/entity?id=a@b:c'!*~"];
        for text in plain {
            let head = Bytes::from(format!("{prefix}{text} HTTP/1.1\r\n\r\n"));
            let target = Target::of(&head, prefix.len()..prefix.len() + text.len()).expect(text);
            assert!(matches!(target, Target::Plain { .. }), "{text}");
            let uri = text.parse::<Uri>().expect(text);
            assert_eq!(target.path_and_query(&head), text.as_bytes());
            assert_eq!(target.path(&head), uri.path().as_bytes(), "{text}");
            assert_eq!(target.query(&head), uri.query().unwrap_or("").as_bytes(), "{text}");
            assert_eq!(target.clone().into_query(head.clone()), target.query(&head), "{text}");
        }
        for (text, path, query) in [
            ("http://h?x", "/", "x"),
            ("http://h:1/a?x", "/a", "x"),
            ("*", "*", ""),
            ("h:80", "", ""),
            ("/\u{e9}?\u{e9}", "/\u{e9}", "\u{e9}"),
        ] {
            let head = Bytes::from(format!("{prefix}{text} HTTP/1.1\r\n\r\n"));
            let target = Target::of(&head, prefix.len()..prefix.len() + text.len()).expect(text);
            let found = (target.path(&head), target.query(&head));
            assert_eq!(found, (path.as_bytes(), query.as_bytes()), "{text}");
            assert_eq!(target.into_query(head), query, "{text}");
        }
        for text in ["", "a/b", "/a b", "/\u{7f}", "/<"] {
            let head = Bytes::copy_from_slice(text.as_bytes());
            let is_uri = text.parse::<Uri>().is_ok();
            assert_eq!(Target::of(&head, 0..text.len()).is_some(), is_uri, "{text}");
        }
        for text in ["/a?b=c#d", "/a#", "http://h:1/a?x#y", "*#"] {
            let head = Bytes::copy_from_slice(text.as_bytes());
            assert!(Target::of(&head, 0..text.len()).is_none(), "{text} has a fragment");
        }
    }

    #[test]
    fn every_plain_character_may_be_in_a_path_and_in_a_query() {
        for byte in (0..=u8::MAX).filter(|&byte| is_of_path(byte)) {
            let character = char::from(byte);
            let uri = format!("/{character}?{character}").parse::<Uri>().expect("a URI");
            assert_eq!((uri.path().len(), uri.query()), (2, Some(&*character.to_string())));
        }
    }
}
