//! The command line of this process.

/// How the names of header fields end whose values are nobody's business but the server's.
const SECRET_FIELDS: [&str; 2] = ["authorization", "cookie"];

/// As it can be typed again, with the program's name instead of its place.
pub(crate) fn command_line() -> String {
    let typed = command_words().into_iter().skip(1).map(|word| quoted(&word));
    std::iter::once("ladoga".to_owned()).chain(typed).collect::<Vec<_>>().join(" ")
}

/// Its words, without secrets.
pub(crate) fn command_words() -> Vec<String> {
    std::env::args_os().map(|word| masked(&word.to_string_lossy())).collect()
}

fn masked(word: &str) -> String {
    // What is before the name is the flag, in whichever form.
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

    #[test]
    fn no_secret_of_a_header_field_is_told() {
        assert_eq!(masked("Authorization: Bearer s3cret"), "Authorization: ***");
        assert_eq!(masked("-Hcookie:a=b"), "-Hcookie: ***");
        assert_eq!(masked("-LH=COOKIE : a=b"), "-LH=COOKIE : ***");
        assert_eq!(masked("--header=Proxy-Authorization: x"), "--header=Proxy-Authorization: ***");
        for told in ["X-Trace: 7", "http://127.0.0.1:8080", "-H", "-c64"] {
            assert_eq!(masked(told), told);
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
