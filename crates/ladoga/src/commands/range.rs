use std::io::{BufWriter, Write, stdout};
use std::os::unix::ffi::OsStrExt;

use super::{Failure, parse_url};
use crate::arguments::RangeArguments;
use crate::client::{Request, percent_encoded};

/// Prints the records of a range.
pub(crate) fn range(arguments: &RangeArguments) -> Result<(), Failure> {
    let url = parse_url(&arguments.node.url)?;
    let end = arguments.end.as_ref().map(|end| format!("&end={}", percent_encoded(end.as_bytes())));
    let start = percent_encoded(arguments.start.as_bytes());
    let target = format!("/v0/entities?start={start}{}", end.unwrap_or_default());
    let mut response = Request { method: "GET", target, field: None, body: None }.send(&url)?;
    if response.status != 200 {
        return Err(Failure::Failed(response.line()));
    }
    let mut out = BufWriter::new(stdout().lock());
    let mut record = Vec::new();
    while response.next_chunk(&mut record)? {
        print(&mut out, &record, arguments.raw)?;
    }
    Ok(out.flush()?)
}

/// A record is a key, a newline, a value. A key that contains a newline cannot be told from a value that does; its first line
/// is taken for it.
fn print(out: &mut impl Write, record: &[u8], raw: bool) -> std::io::Result<()> {
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

fn print_escaped(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
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
    fn raw_is_raw() {
        assert_eq!(printed(b"key\na\nb\t", true), b"key\0a\nb\t\0");
    }
}
