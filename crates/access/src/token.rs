use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use subtle::ConstantTimeEq;

use crate::hex::hex;

/// What a token begins with, so that people and scanners of leaked secrets know one when they see it.
const START: &str = "ldg_";
/// The random bytes of a secret.
const SECRET_BYTES: usize = 32;
/// The same as text: Base64 for URLs, without padding.
const SECRET_CHARS: usize = 43;
/// The longest name of a token.
const ID_CHARS_MAX: usize = 64;

/// The name of a token, which is no secret: what lists, metrics and the audit log have of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(Box<str>);

impl TokenId {
    /// What a name is, as a refusal says it.
    pub const EXPECTED: &str = "1 to 64 letters, digits, '.', '_' or '-'";

    /// Reads a name.
    pub fn parse(text: &str) -> Option<TokenId> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_id = (1..=ID_CHARS_MAX).contains(&text.len()) && text.bytes().all(is_plain);
        is_id.then(|| TokenId(text.into()))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The SHA-256 of a secret. Of 256 random bits, nobody finds another preimage: a slow hash would only cost each request its time.
#[derive(Clone, Copy)]
pub struct SecretHash([u8; SHA256_OUTPUT_LEN]);

impl SecretHash {
    /// That of a secret, as it is written.
    pub fn of(secret: &[u8]) -> SecretHash {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, secret).as_ref());
        SecretHash(hash)
    }

    /// Whether both are of one secret, in the same time whatever they are.
    pub fn is(&self, other: &SecretHash) -> bool {
        self.0.ct_eq(&other.0).into()
    }

    /// Reads 64 hexadecimal digits.
    pub(crate) fn parse(text: &str) -> Option<SecretHash> {
        let digits = text.as_bytes();
        if digits.len() != 2 * SHA256_OUTPUT_LEN {
            return None;
        }
        let mut hash = [0; SHA256_OUTPUT_LEN];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
        }
        Some(SecretHash(hash))
    }

    pub(crate) fn text(&self) -> String {
        hex(&self.0)
    }
}

/// Nothing of it, so that no log has it by accident.
impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash")
    }
}

/// What a client shows: the name of its token, and the secret.
#[derive(Clone, Copy)]
pub struct Presented<'t> {
    /// As whom.
    pub id: &'t str,
    /// The proof of it.
    secret: &'t str,
}

impl<'t> Presented<'t> {
    /// Reads `ldg_ID_SECRET`.
    pub fn parse(token: &'t [u8]) -> Option<Presented<'t>> {
        let rest = str::from_utf8(token).ok()?.strip_prefix(START)?;
        // From behind: both parts may have underscores in them.
        let (id, secret) = rest.split_at_checked(rest.len().checked_sub(SECRET_CHARS)?)?;
        Presented::of(id.strip_suffix('_')?.as_bytes(), secret.as_bytes())
    }

    /// A name and a secret that came apart. The secret may also be the whole token of this name.
    pub fn of(id: &'t [u8], secret: &'t [u8]) -> Option<Presented<'t>> {
        let (id, secret) = (str::from_utf8(id).ok()?, str::from_utf8(secret).ok()?);
        TokenId::parse(id)?;
        if secret.starts_with(START) && secret.len() > SECRET_CHARS {
            return Presented::parse(secret.as_bytes()).filter(|presented| presented.id == id);
        }
        let is_secret = secret.len() == SECRET_CHARS
            && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        is_secret.then_some(Presented { id, secret })
    }

    /// The hash by which its token is known.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.secret.as_bytes())
    }
}

impl fmt::Debug for Presented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Presented").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What is shown in the header field `Authorization: Bearer TOKEN`: RFC 6750, 2.1.
pub fn bearer(authorization: &[u8]) -> Option<Presented<'_>> {
    Presented::parse(after_scheme(authorization)?.trim_ascii())
}

/// Whether a header field `Authorization` has that scheme at all.
pub fn is_bearer(authorization: &[u8]) -> bool {
    after_scheme(authorization).is_some()
}

fn after_scheme(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked("Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
}

/// A new token of this name, as text that is shown once, and the hash that is kept; out of bytes that nobody can guess.
pub fn generate(id: &TokenId, random: [u8; SECRET_BYTES]) -> (String, SecretHash) {
    let secret = URL_SAFE_NO_PAD.encode(random);
    let hash = SecretHash::of(secret.as_bytes());
    (format!("{START}{id}_{secret}"), hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TokenId {
        TokenId::parse(text).expect("a name")
    }

    #[test]
    fn a_token_is_understood_whatever_its_name_and_secret_have_in_them() {
        for name in ["a", "app_1", "ldg_a", "_", "x.y-z", &"n".repeat(ID_CHARS_MAX)] {
            for byte in [0, 0xfb, 0xff] {
                let (token, hash) = generate(&id(name), [byte; SECRET_BYTES]);
                let presented = Presented::parse(token.as_bytes()).expect("a token");
                assert_eq!(presented.id, name);
                assert!(presented.hash().is(&hash));
                let header = format!("bEARER  {token} ");
                assert!(bearer(header.as_bytes()).is_some_and(|it| it.hash().is(&hash)));
                let whole = Presented::of(name.as_bytes(), token.as_bytes()).expect("the whole token");
                assert!(whole.hash().is(&hash));
                assert!(Presented::of(b"other", token.as_bytes()).is_none());
            }
        }
    }

    #[test]
    fn what_is_no_token_is_none() {
        let (token, _) = generate(&id("app"), [7; SECRET_BYTES]);
        let longer = format!("ldg_{}_{}", "n".repeat(ID_CHARS_MAX + 1), "s".repeat(SECRET_CHARS));
        let wrong = ["", "ldg_", "ldg__", &token[1..], &token[..token.len() - 1], &longer, "ldg_a b_"];
        for wrong in wrong {
            assert!(Presented::parse(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(Presented::parse(b"ldg_\xff").is_none());
        let with_space = token.replace("app", "a p");
        assert!(Presented::parse(with_space.as_bytes()).is_none());
        let multibyte = format!("ldg_app_{}\u{e9}", "s".repeat(SECRET_CHARS - 1));
        assert!(Presented::parse(multibyte.as_bytes()).is_none());
        for header in ["", "Bearer", "Bearer ", "Basic abc", &token] {
            assert!(bearer(header.as_bytes()).is_none(), "{header}");
        }
    }

    #[test]
    fn a_hash_is_hexadecimal_and_says_nothing_in_a_log() {
        let hash = SecretHash::of(b"secret");
        assert!(SecretHash::parse(&hash.text()).is_some_and(|read| read.is(&hash)));
        assert!(!SecretHash::of(b"other").is(&hash));
        assert_eq!(format!("{hash:?}"), "SecretHash");
        assert!(SecretHash::parse(&"g".repeat(64)).is_none());
        assert!(SecretHash::parse("00").is_none());
        let (token, _) = generate(&id("app"), [7; SECRET_BYTES]);
        let shown = format!("{:?}", Presented::parse(token.as_bytes()));
        assert!(!shown.contains(&token[token.len() - 8..]), "{shown}");
    }
}
