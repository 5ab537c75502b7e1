use std::fmt;

/// How many bytes of what a client sent are quoted in an error.
const QUOTE_BYTES_MAX: usize = 32;

/// Bytes of a client, as an error repeats them: printable, on one line, not longer than a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quote(String);

impl Quote {
    /// Quotes the first bytes.
    pub fn of(bytes: &[u8]) -> Quote {
        let cut = &bytes[..bytes.len().min(QUOTE_BYTES_MAX)];
        let dots = if cut.len() < bytes.len() { "..." } else { "" };
        let mut quote = String::from("'");
        for &byte in cut {
            match byte {
                // The quotes around it are others, and JSON escapes this one anyway.
                b'"' => quote.push('"'),
                byte => quote.extend(byte.escape_ascii().map(char::from)),
            }
        }
        Quote(format!("{quote}{dots}'"))
    }
}

impl fmt::Display for Quote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_on_one_line_and_short() {
        assert_eq!(Quote::of(b"a\nb").to_string(), r"'a\nb'");
        assert_eq!(Quote::of(b"\"a\"'").to_string(), r#"'"a"\''"#);
        assert_eq!(Quote::of(&[b'x'; 33]).to_string(), format!("'{}...'", "x".repeat(32)));
    }
}
