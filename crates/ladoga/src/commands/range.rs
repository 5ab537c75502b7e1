use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;

use serde_json::Value;

use super::record_lines::RECORD_BYTES_MAX;
use super::{Failure, node_url, output};
use crate::arguments::NodeArguments;
use crate::client::{NDJSON, Request, Response, from_base64, percent_encoded};
use crate::range_arguments::{BoundArguments, CountArguments, RangeArguments};

/// Prints the records of a range.
pub(crate) fn range(arguments: &RangeArguments) -> Result<(), Failure> {
    let RangeArguments { start, bounds, after, limit, reverse, keys_only, raw, json, node } = arguments;
    if start.is_none() && bounds.prefix.is_none() && after.is_none() {
        let reason = "START, --prefix and --after are missing, expected one of them, as in `ladoga range --prefix user:`";
        return Err(Failure::Usage(reason.to_owned()));
    }
    let mut query = Query::of(start.as_deref(), bounds);
    query.add_key("after", after.as_deref());
    if let Some(limit) = limit {
        query.add("limit", &limit.to_string());
    }
    for (name, value) in [("reverse", *reverse), ("values", !keys_only)] {
        query.add(name, if value { "true" } else { "false" });
    }
    let mut out = BufWriter::new(output());
    if *json {
        let (response, mut lines) = (ask(&query, node)?, Lines::default());
        response.lines(|piece| lines.print(&mut out, piece).map_err(Failure::from))?;
    } else {
        // In lines it is known where a key ends, whatever bytes it has, and that the node goes on looking.
        let (response, mut records) = (ask(&query, node)?, Records::of(RECORD_BYTES_MAX, *keys_only));
        response.lines(|piece| records.print(&mut out, piece, *raw))?;
    }
    Ok(out.flush()?)
}

/// By which lines of JSON are asked for.
pub(super) const LINES: Option<(&str, &str)> = Some(("accept", NDJSON));

/// Prints how many keys a range has.
pub(crate) fn count(arguments: &CountArguments) -> Result<(), Failure> {
    let CountArguments { start, bounds, node } = arguments;
    let mut query = Query::of(start.as_deref(), bounds);
    if start.is_none() && bounds.prefix.is_none() {
        query.add_key("start", Some(OsStr::from_bytes(b"\0")));
    }
    query.add("count", "true");
    let number = ask(&query, node)?.count()?;
    Ok(writeln!(output(), "{number}")?)
}

/// The query of a range.
#[derive(Default)]
pub(super) struct Query(String);

impl Query {
    pub(super) fn of(start: Option<&OsStr>, bounds: &BoundArguments) -> Query {
        let mut query = Query::default();
        query.add_key("start", start);
        query.add_key("end", bounds.end.as_deref());
        query.add_key("prefix", bounds.prefix.as_deref());
        query
    }

    /// The path with it.
    pub(super) fn target(&self, path: &str) -> String {
        if self.0.is_empty() { path.to_owned() } else { format!("{path}?{}", self.0) }
    }

    pub(super) fn add_key(&mut self, name: &str, key: Option<&OsStr>) {
        if let Some(key) = key {
            self.add(name, &percent_encoded(key.as_bytes()));
        }
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        let separator = if self.0.is_empty() { "" } else { "&" };
        self.0.extend([separator, name, "=", value]);
    }
}

fn ask(query: &Query, node: &NodeArguments) -> Result<Response, Failure> {
    served(request(query).send_in_time(&node_url(node)?)?)
}

/// The same of one page of many, which waits for the rate of the token: those before it may have used that.
pub(super) fn ask_once_admitted(query: &Query, node: &NodeArguments) -> Result<Response, Failure> {
    served(request(query).send_once_admitted(&node_url(node)?)?)
}

fn request(query: &Query) -> Request<'static> {
    let target = query.target("/v0/entities");
    Request { method: "GET", target, fields: LINES.into_iter().collect(), body: None }
}

fn served(response: Response) -> Result<Response, Failure> {
    if response.status == 200 { Ok(response) } else { Err(Failure::refused(response)) }
}

/// Lines that come in pieces. Empty ones say only that more is coming.
#[derive(Default)]
pub(super) struct Lines {
    is_within: bool,
}

impl Lines {
    pub(super) fn print(&mut self, out: &mut impl Write, piece: &[u8]) -> io::Result<()> {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.is_within || part != b"\n" {
                out.write_all(part)?;
            }
            self.is_within = !part.ends_with(b"\n");
        }
        Ok(())
    }
}

fn print_key(out: &mut impl Write, key: &[u8], raw: bool) -> io::Result<()> {
    if raw {
        out.write_all(key)?;
        return out.write_all(b"\0");
    }
    print_escaped(out, key)?;
    out.write_all(b"\n")
}

/// Records that come as lines of JSON, in pieces.
struct Records {
    /// What has come of a line.
    line: Vec<u8>,
    line_bytes_max: usize,
    /// They have no values.
    keys_only: bool,
}

impl Records {
    const fn of(line_bytes_max: usize, keys_only: bool) -> Records {
        Records { line: Vec::new(), line_bytes_max, keys_only }
    }

    fn print(&mut self, out: &mut impl Write, mut piece: &[u8], raw: bool) -> Result<(), Failure> {
        while let Some(end) = piece.iter().position(|&byte| byte == b'\n') {
            self.extend(&piece[..end])?;
            piece = &piece[end + 1..];
            if !self.line.is_empty() {
                self.print_line(out, raw)?;
                self.line.clear();
            }
        }
        self.extend(piece)
    }

    fn print_line(&self, out: &mut impl Write, raw: bool) -> Result<(), Failure> {
        let record: Value = serde_json::from_slice(&self.line).map_err(|_| no_record())?;
        let member = |name| bytes_of(&record, name).ok_or_else(no_record);
        let key = member("key")?;
        if self.keys_only {
            return Ok(print_key(out, &key, raw)?);
        }
        Ok(print(out, (&*key, &*member("value")?), raw)?)
    }

    fn extend(&mut self, part: &[u8]) -> Result<(), Failure> {
        if self.line.len() + part.len() > self.line_bytes_max {
            let reason = format!(
                "the node sent a line of more than {} bytes, which is no record",
                self.line_bytes_max
            );
            return Err(Failure::Failed(reason));
        }
        self.line.extend_from_slice(part);
        Ok(())
    }
}

fn no_record() -> Failure {
    let reason = "the node sent a line that is no record; expected one with a key and a value";
    Failure::Failed(reason.to_owned())
}

/// A member that is text, or bytes that are no text.
fn bytes_of<'r>(record: &'r Value, name: &str) -> Option<Cow<'r, [u8]>> {
    if let Some(text) = record[name].as_str() {
        return Some(Cow::Borrowed(text.as_bytes()));
    }
    from_base64(record[format!("{name}_base64")].as_str()?).map(Cow::Owned)
}

fn print(out: &mut impl Write, (key, value): (&[u8], &[u8]), raw: bool) -> io::Result<()> {
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

pub(super) fn print_escaped(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
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

    fn printed((key, value): (&[u8], &[u8]), raw: bool) -> Vec<u8> {
        let mut out = Vec::new();
        print(&mut out, (key, value), raw).expect("memory takes all");
        out
    }

    #[test]
    fn a_record_is_a_line() {
        assert_eq!(printed((b"key", b"value"), false), b"key\tvalue\n");
        assert_eq!(printed((b"key", b""), false), b"key\t\n");
        assert_eq!(printed((b"a\tb", b"c\nd\\\r\0\xff"), false), b"a\\tb\tc\\nd\\\\\\r\\0\xff\n");
        assert_eq!(printed((b"a\nb", b"c\n"), false), b"a\\nb\tc\\n\n");
    }

    #[test]
    fn records_come_as_lines_however_these_are_cut() {
        let lines = b"\n{\"key\":\"a\\nb\",\"etag\":\"x\",\"value\":\"c\"}\n\n{\"key_base64\":\"/w==\",\"value_base64\":\"/g==\"}\n";
        for cut in 0..=lines.len() {
            let (mut out, mut records) = (Vec::new(), Records::of(64, false));
            for piece in [&lines[..cut], &lines[cut..]] {
                records.print(&mut out, piece, false).expect("records");
            }
            assert_eq!(out, b"a\\nb\tc\n\xff\t\xfe\n", "cut at {cut}");
        }
        for line in [
            "{}\n",
            "key\n",
            "{\"key\":\"k\"}\n",
            "{\"key\":1,\"value\":\"v\"}\n",
            "{\"key\":\"k\",\"value_base64\":\"v\"}\n",
        ] {
            let refused = Records::of(64, false).print(&mut Vec::new(), line.as_bytes(), false);
            assert!(matches!(refused, Err(Failure::Failed(_))), "{line}");
        }
    }

    /// It was held in memory, however long it was.
    #[test]
    fn a_line_that_has_no_end_is_refused() {
        let mut records = Records::of(64, false);
        for _ in 0..4 {
            assert!(records.print(&mut Vec::new(), &[b'x'; 16], false).is_ok());
        }
        let refused = records.print(&mut Vec::new(), b"x", false);
        assert!(matches!(refused, Err(Failure::Failed(reason)) if reason.contains("more than 64 bytes")));
    }

    #[test]
    fn a_key_alone_may_have_newlines() {
        let key = |record: &[u8], raw| {
            let mut out = Vec::new();
            print_key(&mut out, record, raw).expect("memory takes all");
            out
        };
        assert_eq!(key(b"key", false), b"key\n");
        assert_eq!(key(b"a\nb\n", false), b"a\\nb\\n\n");
        assert_eq!(key(b"a\nb", true), b"a\nb\0");
        let (mut out, mut keys) = (Vec::new(), Records::of(64, true));
        keys.print(&mut out, b"\n{\"key\":\"a\",\"etag\":\"x\"}\n{\"key_base64\":\"/w==\"}\n", false)
            .expect("keys");
        assert_eq!(out, b"a\n\xff\n");
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
        assert_eq!(printed((b"key\n", b"a\nb\t"), true), b"key\n\0a\nb\t\0");
    }
}
