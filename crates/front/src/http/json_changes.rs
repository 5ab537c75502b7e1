use ladoga_model::{Stamp, Value};
use ladoga_service::{ChangeFormat, ChangedTo};

use super::framing::Framing;
use super::json::{put_bytes, put_stamp};

/// Changes as objects of JSON, each a line, or the data of a server-sent event:
///
/// ```text
/// {"op":"put","key":"lake","etag":"\"0019abcdef012345-0000\"","expires_ms":1764000000000,"value":"deep"}
/// {"op":"put","key":"photo","etag":"\"0019abcdef012346-0000\"","value_bytes":1048576}
/// {"op":"delete","key":"lake","etag":"\"0019abcdef012347-0000\""}
/// {"op":"expire","key":"lake","etag":"\"0019abcdef012345-0000\"","expires_ms":1764000000000}
/// ```
///
/// Keys and values are written as in ranges. Of a value of 256 KiB and more there is its length: a client can ask for it.
pub(crate) struct JsonChanges {
    pub(crate) is_events: bool,
    pub(crate) has_values: bool,
}

impl ChangeFormat for JsonChanges {
    fn change(&mut self, out: &mut Vec<u8>, key: &[u8], stamp: Stamp, to: ChangedTo<'_>) {
        let name = match to {
            ChangedTo::Value(_) => "put",
            ChangedTo::Nothing => "delete",
            ChangedTo::Expired => "expire",
        };
        let begin: &[u8] = if self.is_events { b"data: {\"op\":\"" } else { b"{\"op\":\"" };
        out.extend_from_slice(begin);
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",");
        put_bytes(out, "key", key);
        put_stamp(out, stamp.version, stamp.expires_at_ms);
        match to {
            ChangedTo::Value(Value::Inline(value)) if self.has_values => {
                out.push(b',');
                put_bytes(out, "value", value);
            }
            ChangedTo::Value(Value::Large(bytes)) if self.has_values => {
                out.extend_from_slice(format!(",\"value_bytes\":{bytes}").as_bytes());
            }
            ChangedTo::Value(_) | ChangedTo::Nothing | ChangedTo::Expired => {}
        }
        out.extend_from_slice(if self.is_events { b"}\n\n" } else { b"}\n" });
    }
}

/// What is written between changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeLines {
    pub(crate) framing: Framing,
    pub(crate) is_events: bool,
}

impl ChangeLines {
    /// Changes, if there are any, and where they end, if that is to be told.
    pub(crate) fn changes(self, mut changes: Vec<u8>, token: Option<&str>) -> Vec<u8> {
        if let Some(token) = token {
            // Of an EventSource, the identifier is the one that it names when it comes back; only who listens for bookmarks gets them.
            let bookmark = if self.is_events {
                format!("id: {token}\nevent: bookmark\ndata: {{\"bookmark\":\"{token}\"}}\n\n")
            } else {
                format!("{{\"bookmark\":\"{token}\"}}\n")
            };
            changes.extend_from_slice(bookmark.as_bytes());
        }
        let mut out = Vec::with_capacity(changes.len() + 16);
        if !changes.is_empty() {
            self.framing.whole(&mut out, &changes);
        }
        out
    }

    /// A sign that nothing has changed, which is neither an event nor an object.
    pub(crate) fn alive(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.framing.whole(&mut out, if self.is_events { b":\n\n" } else { b"\n" });
        out
    }

    /// What comes after the last change.
    pub(crate) fn end(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.framing.last(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use ladoga_model::Version;

    use super::*;

    const STAMP: Stamp = Stamp::new(Version { timestamp: 1, node: 2 });
    const ETAG: &str = "\"etag\":\"\\\"0000000000000001-0002\\\"\"";

    fn line(is_events: bool, has_values: bool, stamp: Stamp, to: ChangedTo<'_>) -> String {
        let mut out = Vec::new();
        JsonChanges { is_events, has_values }.change(&mut out, b"k", stamp, to);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn a_change_is_a_line_or_an_event() {
        let value = ChangedTo::Value(Value::Inline(&b"v\n"[..]));
        let put = format!("{{\"op\":\"put\",\"key\":\"k\",{ETAG}");
        assert_eq!(line(false, true, STAMP, value), format!("{put},\"value\":\"v\\n\"}}\n"));
        assert_eq!(line(false, false, STAMP, value), format!("{put}}}\n"));
        assert_eq!(line(true, true, STAMP, value), format!("data: {put},\"value\":\"v\\n\"}}\n\n"));
        let large = ChangedTo::Value(Value::Large(1 << 20));
        assert_eq!(line(false, true, STAMP, large), format!("{put},\"value_bytes\":1048576}}\n"));
        assert_eq!(line(false, false, STAMP, large), format!("{put}}}\n"));
        let deleted = format!("{{\"op\":\"delete\",\"key\":\"k\",{ETAG}}}\n");
        assert_eq!(line(false, true, STAMP, ChangedTo::Nothing), deleted);
        let expiring = Stamp { expires_at_ms: 17, ..STAMP };
        let expired = format!("{{\"op\":\"expire\",\"key\":\"k\",{ETAG},\"expires_ms\":17}}\n");
        assert_eq!(line(false, true, expiring, ChangedTo::Expired), expired);
    }

    #[test]
    fn bookmarks_and_signs_of_life_are_no_changes() {
        let lines = |is_events| ChangeLines { framing: Framing::Plain, is_events };
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        assert_eq!(text(lines(false).changes(b"x\n".to_vec(), Some("7f"))), "x\n{\"bookmark\":\"7f\"}\n");
        let event = "id: 7f\nevent: bookmark\ndata: {\"bookmark\":\"7f\"}\n\n";
        assert_eq!(text(lines(true).changes(Vec::new(), Some("7f"))), event);
        assert_eq!((text(lines(false).alive()), text(lines(true).alive())), ("\n".into(), ":\n\n".into()));
        let chunked = ChangeLines { framing: Framing::Chunked, is_events: false };
        assert_eq!(text(chunked.changes(b"x\n".to_vec(), None)), "2\r\nx\n\r\n");
        assert_eq!((chunked.changes(Vec::new(), None), chunked.end()), (Vec::new(), b"0\r\n\r\n".to_vec()));
    }
}
