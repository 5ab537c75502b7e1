use std::ffi::OsStr;
use std::io::{self, BufWriter, Write, stdout};
use std::os::unix::ffi::OsStrExt;

use super::{Failure, parse_url};
use crate::arguments::NodeArguments;
use crate::client::{Request, Response, percent_encoded};
use crate::range_arguments::{BoundArguments, CountArguments, RangeArguments};

/// Prints the records of a range.
pub(crate) fn range(arguments: &RangeArguments) -> Result<(), Failure> {
    let RangeArguments { start, bounds, after, limit, reverse, keys_only, raw, json, node } = arguments;
    let mut query = Query::of(start.as_deref(), bounds);
    query.add_key("after", after.as_deref());
    if let Some(limit) = limit {
        query.add("limit", &limit.to_string());
    }
    for (name, value) in [("reverse", *reverse), ("values", !keys_only)] {
        query.add(name, if value { "true" } else { "false" });
    }
    let accept = json.then_some(("accept", "application/x-ndjson"));
    let mut response = ask(&query, accept, node)?;
    let mut out = BufWriter::new(stdout().lock());
    if *json {
        let mut lines = Lines::default();
        response.body(|piece| lines.print(&mut out, piece).map_err(Failure::from))?;
        return Ok(out.flush()?);
    }
    let mut record = Vec::new();
    while response.next_chunk(&mut record)? {
        if *keys_only {
            print_key(&mut out, &record, *raw)?;
        } else {
            print(&mut out, &record, *raw)?;
        }
    }
    Ok(out.flush()?)
}

/// Prints how many keys a range has.
pub(crate) fn count(arguments: &CountArguments) -> Result<(), Failure> {
    let CountArguments { start, bounds, node } = arguments;
    let mut query = Query::of(start.as_deref(), bounds);
    if start.is_none() && bounds.prefix.is_none() {
        query.add_key("start", Some(OsStr::from_bytes(b"\0")));
    }
    query.add("count", "true");
    let response = ask(&query, None, node)?;
    let mut number = Vec::new();
    response.body(|piece| {
        number.extend_from_slice(piece);
        Ok::<_, Failure>(())
    })?;
    Ok(stdout().lock().write_all(&number)?)
}

/// The query of a range.
struct Query(String);

impl Query {
    fn of(start: Option<&OsStr>, bounds: &BoundArguments) -> Query {
        let mut query = Query(String::new());
        query.add_key("start", start);
        query.add_key("end", bounds.end.as_deref());
        query.add_key("prefix", bounds.prefix.as_deref());
        query
    }

    fn add_key(&mut self, name: &str, key: Option<&OsStr>) {
        if let Some(key) = key {
            self.add(name, &percent_encoded(key.as_bytes()));
        }
    }

    fn add(&mut self, name: &str, value: &str) {
        let separator = if self.0.is_empty() { "" } else { "&" };
        self.0.extend([separator, name, "=", value]);
    }
}

fn ask(
    query: &Query,
    field: Option<(&'static str, &str)>,
    node: &NodeArguments,
) -> Result<Response, Failure> {
    let url = parse_url(&node.url)?;
    let target = format!("/v0/entities?{}", query.0);
    let response = Request { method: "GET", target, field, body: None }.send(&url)?;
    if response.status == 200 { Ok(response) } else { Err(Failure::Failed(response.line())) }
}

/// Lines that come in pieces. Empty ones say only that more is coming.
#[derive(Default)]
struct Lines {
    is_within: bool,
}

impl Lines {
    fn print(&mut self, out: &mut impl Write, piece: &[u8]) -> io::Result<()> {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.is_within || part != b"\n" {
                out.write_all(part)?;
            }
            self.is_within = !part.ends_with(b"\n");
        }
        Ok(())
    }
}

/// A record without its value is a key and a newline.
fn print_key(out: &mut impl Write, record: &[u8], raw: bool) -> io::Result<()> {
    let key = record.strip_suffix(b"\n").unwrap_or(record);
    if raw {
        out.write_all(key)?;
        return out.write_all(b"\0");
    }
    print_escaped(out, key)?;
    out.write_all(b"\n")
}

/// A record is a key, a newline, a value. A key that has a newline itself cannot be told from a value that has one; its
/// first line is taken for it.
fn print(out: &mut impl Write, record: &[u8], raw: bool) -> io::Result<()> {
    let newline = record.iter().position(|&byte| byte == b'\n').unwrap_or(record.len());
    let (key, value) = (&record[..newline], record.get(newline + 1..).unwrap_or_default());
    if raw {
        out.write_all(key)?;
        out.write_all(b"\0")?;
        out.write_all(value)?;
        return out.write_all(b"\0");
    }
    print_escaped(out, key)?;
    out.write_all(b"\t")?;
    print_escaped(out, value)?;
    out.write_all(b"\n")
}

fn print_escaped(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut plain = 0;
    for (index, byte) in bytes.iter().enumerate() {
        let escaped = match byte {
            b'\\' => b"\\\\",
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            0 => b"\\0",
            _ => continue,
        };
        out.write_all(&bytes[plain..index])?;
        out.write_all(escaped)?;
        plain = index + 1;
    }
    out.write_all(&bytes[plain..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(record: &[u8], raw: bool) -> Vec<u8> {
        let mut out = Vec::new();
        print(&mut out, record, raw).expect("memory takes all");
        out
    }

    #[test]
    fn a_record_is_a_line() {
        assert_eq!(printed(b"key\nvalue", false), b"key\tvalue\n");
        assert_eq!(printed(b"key\n", false), b"key\t\n");
        assert_eq!(printed(b"a\tb\nc\nd\\\r\0\xff", false), b"a\\tb\tc\\nd\\\\\\r\\0\xff\n");
    }

    #[test]
    fn a_key_alone_may_have_newlines() {
        let key = |record: &[u8], raw| {
            let mut out = Vec::new();
            print_key(&mut out, record, raw).expect("memory takes all");
            out
        };
        assert_eq!(key(b"key\n", false), b"key\n");
        assert_eq!(key(b"a\nb\n\n", false), b"a\\nb\\n\n");
        assert_eq!(key(b"a\nb\n", true), b"a\nb\0");
    }

    #[test]
    fn empty_lines_are_no_records() {
        let (mut out, mut lines) = (Vec::new(), Lines::default());
        for piece in [&b"\n"[..], b"{1", b"2}\n\n", b"\n{3}", b"\n", b"\n{4}\n"] {
            lines.print(&mut out, piece).expect("memory takes all");
        }
        assert_eq!(out, b"{12}\n{3}\n{4}\n");
    }

    #[test]
    fn raw_is_raw() {
        assert_eq!(printed(b"key\na\nb\t", true), b"key\0a\nb\t\0");
    }
}
