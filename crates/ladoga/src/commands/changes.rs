use std::io::Write;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::range::{LINES, Query, print_escaped};
use super::{Failure, node_url, output};
use crate::changes_arguments::ChangesArguments;
use crate::client::{ClientError, Request, Url, percent_encoded};

/// The node gives a sign more often than this.
const PATIENCE: Duration = Duration::from_secs(45);
/// How soon it is asked again if it is not there; twice as long after each attempt, up to the second.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The longest line that is taken: a value of 256 KiB of which each byte is escaped, and a key.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Prints changes, until nobody reads them.
pub(crate) fn changes(arguments: &ChangesArguments) -> Result<(), Failure> {
    let url = node_url(&arguments.node)?;
    let mut lines =
        ChangeReader { is_json: arguments.json, since: arguments.since.clone(), partial: Vec::new() };
    let (mut pause, mut has_begun) = (RETRY_MIN, false);
    loop {
        match follow(arguments, &url, &mut lines, &mut has_begun) {
            Ok(()) => pause = RETRY_MIN,
            Err(Stop::Broken(error)) if !has_begun => return Err(error.into()),
            Err(Stop::Broken(_) | Stop::NotNow) => {}
            Err(Stop::Failed(failure)) => return Err(failure),
        }
        thread::sleep(pause);
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Why a connection is over.
enum Stop {
    /// It broke, or could not be made.
    Broken(ClientError),
    /// The node does not serve now, or not this token.
    NotNow,
    /// There is no use in another one.
    Failed(Failure),
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Stop {
        match error {
            ClientError::NotANode { .. } | ClientError::Cut { .. } => Stop::Failed(error.into()),
            error => Stop::Broken(error),
        }
    }
}

/// Follows by one connection. Answers once that has come to its end, after something was told.
fn follow(
    arguments: &ChangesArguments,
    url: &Url,
    lines: &mut ChangeReader,
    has_begun: &mut bool,
) -> Result<(), Stop> {
    let mut query = Query::of(arguments.start.as_deref(), &arguments.bounds);
    if let Some(since) = &lines.since {
        query.add("since", &percent_encoded(since.as_bytes()));
    }
    let target = query.target("/v0/changes");
    let request = Request { method: "GET", target, fields: LINES.into_iter().collect(), body: None };
    let response = request.send_with_patience(url, Some(PATIENCE))?;
    match response.status {
        200 => *has_begun = true,
        429 | 503 if *has_begun => return Err(Stop::NotNow),
        _ => return Err(Stop::Failed(Failure::refused(response))),
    }
    lines.partial.clear();
    let mut out = output();
    let read = response.lines(|piece| lines.take(&mut out, piece).map_err(Stop::Failed));
    match read {
        // The node went away in the middle, or is about to stop.
        Ok(()) | Err(Stop::Broken(_)) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// Reads lines that come in pieces, and remembers where the last of them was.
struct ChangeReader {
    is_json: bool,
    since: Option<String>,
    /// What has come of a line.
    partial: Vec<u8>,
}

impl ChangeReader {
    fn take(&mut self, out: &mut impl Write, piece: &[u8]) -> Result<(), Failure> {
        for part in piece.split_inclusive(|&byte| byte == b'\n') {
            if self.partial.len() + part.len() > LINE_BYTES_MAX {
                return Err(Failure::Failed(format!("a change takes more than {LINE_BYTES_MAX} bytes")));
            }
            self.partial.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial);
                // An empty one says only that nothing has changed.
                if line.len() > 1 {
                    self.line(out, &line)?;
                }
            }
        }
        Ok(out.flush()?)
    }

    fn line(&mut self, out: &mut impl Write, line: &[u8]) -> Result<(), Failure> {
        let change: Value = serde_json::from_slice(line).map_err(|error| {
            Failure::Failed(format!("the node told something that is no change: {error}"))
        })?;
        // What was printed must not be lost if the bookmark behind it is used.
        if self.is_json {
            out.write_all(line)?;
        } else if let Some(op) = change["op"].as_str() {
            print(out, op, &change)?;
        }
        if let Some(bookmark) = change["bookmark"].as_str() {
            self.since = Some(bookmark.to_owned());
        }
        Ok(())
    }
}

fn print(out: &mut impl Write, op: &str, change: &Value) -> Result<(), Failure> {
    out.write_all(op.as_bytes())?;
    out.write_all(b"\t")?;
    print_escaped(out, &bytes_of(change, "key").unwrap_or_default())?;
    if let Some(value) = bytes_of(change, "value") {
        out.write_all(b"\t")?;
        print_escaped(out, &value)?;
    } else if let Some(bytes) = change["value_bytes"].as_u64() {
        write!(out, "\t\t{bytes} bytes")?;
    }
    Ok(out.write_all(b"\n")?)
}

/// A member that is text, or bytes in base64.
fn bytes_of(change: &Value, name: &str) -> Option<Vec<u8>> {
    if let Some(text) = change[name].as_str() {
        return Some(text.as_bytes().to_vec());
    }
    from_base64(change[&format!("{name}_base64")].as_str()?)
}

/// RFC 4648, 4; `None` for other text.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').bytes().map(|byte| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    });
    let (mut out, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for digit in digits {
        bits = (bits << 6) | u32::from(digit?);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(is_json: bool, pieces: &[&str]) -> (Vec<u8>, Option<String>) {
        let (mut out, mut lines) = (Vec::new(), ChangeReader { is_json, since: None, partial: Vec::new() });
        for piece in pieces {
            lines.take(&mut out, piece.as_bytes()).expect("lines");
        }
        (out, lines.since)
    }

    #[test]
    fn a_change_is_a_line_however_it_arrives() {
        let text = "{\"op\":\"put\",\"key\":\"a\\tb\",\"etag\":\"\",\"value\":\"v\\n\"}\n\n\
                    {\"op\":\"put\",\"key_base64\":\"/w==\",\"etag\":\"\",\"value_bytes\":1048576}\n\
                    {\"bookmark\":\"7f\"}\n{\"op\":\"delete\",\"key\":\"a\",\"etag\":\"\"}\n";
        let (plain, since) = printed(false, &[text]);
        assert_eq!(plain, b"put\ta\\tb\tv\\n\nput\t\xff\t\t1048576 bytes\ndelete\ta\n");
        assert_eq!(since.as_deref(), Some("7f"));
        let json = text.replace("\n\n", "\n").into_bytes();
        for cut in 0..text.len() {
            assert_eq!(
                printed(true, &[&text[..cut], &text[cut..]]),
                (json.clone(), since.clone()),
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn what_is_no_change_is_told() {
        let mut lines = ChangeReader { is_json: false, since: None, partial: Vec::new() };
        assert!(matches!(lines.take(&mut Vec::new(), b"nonsense\n"), Err(Failure::Failed(_))));
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        assert!(matches!(lines.take(&mut Vec::new(), &long), Err(Failure::Failed(_))));
    }

    #[test]
    fn base64_is_read() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("/w==", b"\xff"),
            ("/v0=", b"\xfe\xfd"),
            ("ZGVlcCBhbmQgY29sZA==", b"deep and cold"),
        ] {
            assert_eq!(from_base64(text).as_deref(), Some(bytes), "{text}");
        }
        assert_eq!(from_base64("a b"), None);
    }
}
