//! The command line of this process.

/// The header fields whose values may be told, and the beginnings of the names of others. Any other one may be what lets a request in.
const TOLD_FIELDS: [&str; 5] = ["host", "content-type", "user-agent", "connection", "range"];
const TOLD_BEGINNINGS: [&str; 2] = ["accept", "if-"];
/// How the names of header fields end that are not told wherever they stand: in the arguments of a script, for example.
const SECRET_FIELDS: [&str; 2] = ["authorization", "cookie"];
/// The short flags of `ladoga bench` that take no value, and may stand before another one in a word.
const SWITCHES: &str = "LUBvh";

/// As it can be typed again, with the program's name instead of its place.
pub(crate) fn command_line() -> String {
    let typed = command_words().into_iter().skip(1).map(|word| quoted(&word));
    std::iter::once("ladoga".to_owned()).chain(typed).collect::<Vec<_>>().join(" ")
}

/// Its words, without secrets.
pub(crate) fn command_words() -> Vec<String> {
    without_secrets(std::env::args_os().map(|word| word.to_string_lossy().into_owned()))
}

fn without_secrets(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_header = false;
    let word = |word: String| {
        let begin = if is_header { Some(0) } else { header_in(&word) };
        is_header = begin == Some(word.len());
        match begin {
            Some(begin) => format!("{}{}", &word[..begin], masked_field(&word[begin..])),
            None => masked(&word),
        }
    };
    words.map(word).collect()
}

/// Where a header field begins in a word: at its end, if it is the next word.
fn header_in(word: &str) -> Option<usize> {
    let flag = word.strip_prefix("--header").or_else(|| {
        let flags = word.strip_prefix('-')?;
        flags.trim_start_matches(|flag| SWITCHES.contains(flag)).strip_prefix('H')
    })?;
    let is_long = word.starts_with("--");
    match flag.strip_prefix('=') {
        Some(field) => Some(word.len() - field.len()),
        None if is_long && !flag.is_empty() => None, // Another flag.
        None => Some(word.len() - flag.len()),
    }
}

/// A header field, with its value only if that may be told.
fn masked_field(field: &str) -> String {
    let is_told = |name: &str| {
        let name = name.trim().to_ascii_lowercase();
        TOLD_FIELDS.contains(&&*name) || TOLD_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
    };
    match field.split_once(':') {
        Some((name, _)) if !is_told(name) => format!("{name}: ***"),
        _ => field.to_owned(),
    }
}

fn masked(word: &str) -> String {
    let is_secret = |before: &str| {
        let before = before.trim_end().to_ascii_lowercase();
        SECRET_FIELDS.iter().any(|name| before.ends_with(name))
    };
    match word.split_once(':') {
        Some((before, _)) if is_secret(before) => format!("{before}: ***"),
        _ => word.to_owned(),
    }
}

/// A word as a shell takes it: `p99<5ms` would read a file.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An API key was told, because only the names of two fields were known.
    #[test]
    fn no_secret_of_a_header_field_is_told() {
        for (typed, told) in [
            ("-H|X-Api-Key: s3cret|-c64", "-H|X-Api-Key: ***|-c64"),
            ("-HX-Trace:7", "-HX-Trace: ***"),
            ("-LUH=X-Trace : 7", "-LUH=X-Trace : ***"),
            ("--header|X-Trace: a:b|http://a:1", "--header|X-Trace: ***|http://a:1"),
            ("--header=X-Trace: x", "--header=X-Trace: ***"),
            ("-LH|Authorization: Bearer s3cret", "-LH|Authorization: ***"),
            ("-Hcookie:a=b", "-Hcookie: ***"),
            ("-s|a.lua|--|Authorization: Bearer s3cret", "-s|a.lua|--|Authorization: ***"),
        ] {
            assert_eq!(without_secrets(typed.split('|').map(str::to_owned)).join("|"), told);
        }
        for told in [
            "-H|Host: a|-H|accept-encoding: gzip|-H|Content-Type: text/x|-HUser-Agent:x|-H|Connection: close",
            "-H|If-None-Match: *|--header=Range: bytes=1-2|-T|2s|http://127.0.0.1:8080|-H",
            "-sHx:y|--hdr|a:b|-c64|--|-x:y",
        ] {
            assert_eq!(without_secrets(told.split('|').map(str::to_owned)).join("|"), told);
        }
    }

    #[test]
    fn a_word_is_quoted_if_a_shell_would_change_it() {
        assert_eq!(quoted("http://127.0.0.1:8080"), "http://127.0.0.1:8080");
        assert_eq!(quoted("p99<5ms,errors<0.1%"), "'p99<5ms,errors<0.1%'");
        assert_eq!(quoted("put at"), "'put at'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
