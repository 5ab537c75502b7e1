use bytes::Bytes;

use crate::number::write_integer;

/// Which version of the protocol a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// What every client speaks.
    #[default]
    Resp2,
    /// What `HELLO 3` asks for.
    Resp3,
}

/// What a request is answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// A word of ours.
    Simple(&'static str),
    /// Why not: a word in capital letters, and a sentence.
    Error(String),
    /// The same with words that a client has sent, whatever bytes they are.
    RawError(Vec<u8>),
    /// A number.
    Integer(i64),
    /// A value.
    Bulk(Bytes),
    /// Text of ours.
    Text(String),
    /// Many lines of ours.
    Verbatim(String),
    /// There is no value.
    Null,
    /// There is no list.
    NullArray,
    /// Several.
    Array(Vec<Reply>),
    /// The same, without an order.
    Set(Vec<Reply>),
    /// Names and what they stand for.
    Map(Vec<(Reply, Reply)>),
}

impl Reply {
    /// `OK`.
    pub const OK: Reply = Reply::Simple("OK");

    /// An error of the usual kind, with these words behind `ERR`.
    pub fn error(words: impl std::fmt::Display) -> Reply {
        Reply::Error(format!("ERR {words}"))
    }

    /// Text of ours.
    pub fn text(text: impl Into<String>) -> Reply {
        Reply::Text(text.into())
    }

    /// Yes or no, as a number.
    pub const fn flag(is_so: bool) -> Reply {
        Reply::Integer(is_so as i64)
    }

    /// Whether it says why not.
    pub const fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_) | Reply::RawError(_))
    }

    /// Writes it.
    pub fn write(&self, out: &mut Vec<u8>, dialect: Dialect) {
        match self {
            Reply::Simple(word) => write_line(out, b'+', word.as_bytes()),
            Reply::Error(text) => write_error(out, text.as_bytes()),
            Reply::RawError(text) => write_error(out, text),
            Reply::Integer(number) => write_head(out, b':', *number),
            Reply::Bulk(bytes) => write_bulk(out, bytes),
            Reply::Verbatim(text) if dialect == Dialect::Resp3 => {
                write_head(out, b'=', text.len() as i64 + 4);
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Reply::Text(text) | Reply::Verbatim(text) => write_bulk(out, text.as_bytes()),
            Reply::Null | Reply::NullArray if dialect == Dialect::Resp3 => out.extend_from_slice(b"_\r\n"),
            Reply::Null => out.extend_from_slice(b"$-1\r\n"),
            Reply::NullArray => out.extend_from_slice(b"*-1\r\n"),
            Reply::Set(items) if dialect == Dialect::Resp3 => write_all(out, b'~', items, dialect),
            Reply::Array(items) | Reply::Set(items) => write_all(out, b'*', items, dialect),
            Reply::Map(pairs) => {
                match dialect {
                    Dialect::Resp2 => write_head(out, b'*', 2 * pairs.len() as i64),
                    Dialect::Resp3 => write_head(out, b'%', pairs.len() as i64),
                }
                for (name, value) in pairs {
                    name.write(out, dialect);
                    value.write(out, dialect);
                }
            }
        }
    }
}

/// Writes what stands before the items of an array.
pub fn write_array_head(out: &mut Vec<u8>, items: usize) {
    write_head(out, b'*', items as i64);
}

/// Writes what stands before a value; behind it comes the end of a line.
pub fn write_bulk_head(out: &mut Vec<u8>, bytes: u64) {
    write_head(out, b'$', bytes as i64);
}

/// Writes a value.
pub fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    write_bulk_head(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn write_all(out: &mut Vec<u8>, kind: u8, items: &[Reply], dialect: Dialect) {
    write_head(out, kind, items.len() as i64);
    items.iter().for_each(|item| item.write(out, dialect));
}

fn write_head(out: &mut Vec<u8>, kind: u8, number: i64) {
    out.push(kind);
    write_integer(out, number);
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, kind: u8, line: &[u8]) {
    out.push(kind);
    out.extend_from_slice(line);
    out.extend_from_slice(b"\r\n");
}

/// An error is one line, whatever a client put into the words that it repeats.
fn write_error(out: &mut Vec<u8>, text: &[u8]) {
    let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let text = &text[..text.iter().rposition(|byte| !is_end(byte)).map_or(0, |last| last + 1)];
    out.push(b'-');
    out.extend(text.iter().map(|byte| if is_end(byte) { b' ' } else { *byte }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, dialect: Dialect) -> String {
        let mut out = Vec::new();
        reply.write(&mut out, dialect);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn replies_are_written_in_both_dialects() {
        let map = Reply::Map(vec![(Reply::text("a"), Reply::Integer(-1))]);
        for (reply, resp2, resp3) in [
            (Reply::OK, "+OK\r\n", "+OK\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (Reply::Bulk(Bytes::from_static(b"ab")), "$2\r\nab\r\n", "$2\r\nab\r\n"),
            (Reply::Verbatim("ab".to_owned()), "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"),
            (Reply::Set(vec![Reply::Integer(1)]), "*1\r\n:1\r\n", "~1\r\n:1\r\n"),
            (map, "*2\r\n$1\r\na\r\n:-1\r\n", "%1\r\n$1\r\na\r\n:-1\r\n"),
            (Reply::Array(vec![Reply::flag(true), Reply::Null]), "*2\r\n:1\r\n$-1\r\n", "*2\r\n:1\r\n_\r\n"),
        ] {
            assert_eq!(written(&reply, Dialect::Resp2), resp2);
            assert_eq!(written(&reply, Dialect::Resp3), resp3);
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_it_repeats() {
        assert_eq!(written(&Reply::error("a\r\n+OK\r\n"), Dialect::Resp2), "-ERR a  +OK\r\n");
    }
}
