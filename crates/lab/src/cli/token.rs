use std::fmt;
use std::path::Path;

use ladoga_tls::{FILE_BYTES_MAX, read_bounded};

/// The variable in which a client has its token. There is no flag for it: everybody on a machine can read those.
const TOKEN_VARIABLE: &str = "LADOGA_TOKEN";

/// What a server is shown to let a client in. It is in no report and in no error.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(String);

impl Token {
    /// The one in a file; or else the one in the variable, if there is one.
    pub(crate) fn find(file: Option<&Path>) -> Result<Option<Token>, String> {
        if let Some(path) = file {
            let shown = path.display();
            let bytes = read_bounded(path).map_err(|error| {
                format!("--token-file is '{shown}', expected a file that can be read: {error}")
            })?;
            let wrong = || format!("--token-file is '{shown}', expected a file with one token in it");
            // One that is too long ends in its middle.
            let text = str::from_utf8(&bytes).ok().filter(|text| text.len() <= FILE_BYTES_MAX);
            let token = text.and_then(Token::parse);
            return token.map(Some).ok_or_else(wrong);
        }
        let Some(text) = std::env::var_os(TOKEN_VARIABLE) else { return Ok(None) };
        let wrong = || {
            format!("{TOKEN_VARIABLE} has no token in it, expected one as `ladoga token create` prints it")
        };
        text.to_str().and_then(Token::parse).map(Some).ok_or_else(wrong)
    }

    fn parse(text: &str) -> Option<Token> {
        let token = text.trim();
        // Anything else could end the header field that it is sent in.
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Token(token.to_owned()))
    }

    /// As a header field: its name and its value.
    pub(crate) fn field(&self) -> (String, String) {
        ("Authorization".to_owned(), format!("Bearer {}", self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_word_and_nothing_shows_it() {
        let token = Token::parse(" ldg_a_secret\n").expect("a token");
        assert_eq!(token.field().1, "Bearer ldg_a_secret");
        assert_eq!(format!("{token:?}"), "Token");
        for wrong in ["", "\n", "a b", "a\r\nHost: x"] {
            assert_eq!(Token::parse(wrong), None, "{wrong}");
        }
    }
}
