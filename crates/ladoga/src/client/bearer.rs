use std::fmt;

/// What a client shows to be let in. It is in no error and in no log.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Bearer(String);

impl Bearer {
    /// Reads a token as it stands in a variable or a file.
    pub(crate) fn parse(text: &str) -> Option<Bearer> {
        let token = text.trim();
        // Anything else could end the header field that it is sent in.
        let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Bearer(token.to_owned()))
    }

    /// As a header field with its end.
    pub(crate) fn field(&self) -> String {
        format!("authorization: Bearer {}\r\n", self.0)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")
    }
}
