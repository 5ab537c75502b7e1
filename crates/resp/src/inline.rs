use bytes::Bytes;

use crate::request::Request;

/// Cuts a line into arguments as Redis does: by spaces, with `"…"`, where `\n`, `\r`, `\t`, `\b`, `\a` and `\xNN` stand for bytes,
/// and `'…'`, where only `\'` does. `None` if a quote has no end, or something directly behind it.
pub(crate) fn split(line: &[u8]) -> Option<Request> {
    let (mut bytes, mut places, mut at) = (Vec::with_capacity(line.len()), Vec::new(), 0);
    loop {
        while line.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        if at == line.len() {
            return Some(Request::of(Bytes::from(bytes), places));
        }
        let begin = bytes.len();
        at = match line[at] {
            b'"' => double_quoted(line, at + 1, &mut bytes)?,
            b'\'' => single_quoted(line, at + 1, &mut bytes)?,
            _ => plain(line, at, &mut bytes)?,
        };
        places.push((begin, bytes.len() - begin));
    }
}

/// As `isspace` of C has it.
const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// A part without quotes; one may begin in its middle.
fn plain(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    while let Some(&byte) = line.get(at) {
        match byte {
            // (Redis ends words by fewer bytes than it has between them.)
            b' ' | b'\t' | b'\n' | b'\r' => break,
            b'"' => return double_quoted(line, at + 1, out),
            b'\'' => return single_quoted(line, at + 1, out),
            _ => out.push(byte),
        }
        at += 1;
    }
    Some(at)
}

fn double_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        match line.get(at..)? {
            [b'"', rest @ ..] => return rest.first().is_none_or(|byte| is_space(*byte)).then_some(at + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                at += 2;
            }
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return None,
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, out: &mut Vec<u8>) -> Option<usize> {
    loop {
        match line.get(at..)? {
            [b'\\', b'\'', ..] => {
                out.push(b'\'');
                at += 2;
            }
            [b'\'', rest @ ..] => return rest.first().is_none_or(|byte| is_space(*byte)).then_some(at + 1),
            [byte, ..] => {
                out.push(*byte);
                at += 1;
            }
            [] => return None,
        }
    }
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &[u8]) -> Option<Vec<Vec<u8>>> {
        split(line).map(|request| (0..request.len()).map(|at| request[at].to_vec()).collect())
    }

    #[test]
    fn a_line_is_cut_as_redis_cuts_it() {
        for (line, expected) in [
            (&b""[..], &[][..]),
            (b"  \t ", &[]),
            (b"PING", &[&b"PING"[..]]),
            (b"SET a  b ", &[b"SET", b"a", b"b"]),
            (b"ECHO \x0ba\x0bb\x0c \x0c", &[b"ECHO", b"a\x0bb\x0c"]),
            (br#"SET a "b c""#, &[b"SET", b"a", b"b c"]),
            (br#"SET a "\x41\n\"""#, &[b"SET", b"a", b"A\n\""]),
            (br#"SET a "\xzz""#, &[b"SET", b"a", b"xzz"]),
            (br"SET a 'b \'c\n'", &[b"SET", b"a", br"b 'c\n"]),
            (br#"SET a """#, &[b"SET", b"a", b""]),
            (br#"SET a pre"fix""#, &[b"SET", b"a", b"prefix"]),
        ] {
            let expected: Vec<Vec<u8>> = expected.iter().map(|argument| argument.to_vec()).collect();
            assert_eq!(arguments(line), Some(expected), "{}", line.escape_ascii());
        }
        for line in [&br#"SET a "b"#[..], br#"SET a "b"c"#, b"SET a 'b", br#"SET a "b\"#, b"'a'b"] {
            assert_eq!(arguments(line), None, "{}", line.escape_ascii());
        }
    }
}
