use std::fmt::Write;

use serde::Deserialize;
use toml::value::Datetime;

use crate::grant::Grant;
use crate::moment::{moment_ms, moment_text};
use crate::rate::{BYTES_PER_SECOND_MAX, REQUESTS_PER_SECOND_MAX, Rate};
use crate::scope::{Scope, Scopes};
use crate::token::{SecretHash, TokenId};

/// The largest file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// How many tokens there may be. Each has its own figures, so this bounds those too.
pub const TOKENS_MAX: usize = 1_000;
/// Prefixes of one token: each key is compared with all of them.
const PREFIXES_MAX: usize = 64;
/// The longest of them: no key is longer.
const PREFIX_BYTES_MAX: usize = ladoga_model::KEY_BYTES_MAX;
/// How much of another program's words is repeated.
const REASON_CHARS_MAX: usize = 120;

/// A token as it is kept: everything but its secret.
#[derive(Debug, Clone)]
pub struct TokenEntry {
    /// Its name.
    pub id: TokenId,
    /// By which the secret is known.
    pub hash: SecretHash,
    /// What it allows.
    pub grant: Grant,
    /// From when on it does not, in milliseconds since 1970.
    pub expires_at_ms: Option<u64>,
    /// How many requests a second.
    pub requests: Option<Rate>,
    /// How many bytes of values a second, in both directions together.
    pub bytes: Option<Rate>,
}

/// All tokens of a file.
///
/// ```toml
/// [[token]]
/// id = "app"
/// sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
/// scopes = ["read", "write"]
/// prefixes = ["user:"]
/// expires = 2027-01-31T12:00:00Z
/// requests_per_second = 1000
/// bytes_per_second = 10000000
/// ```
///
/// The last four can be left out: any key, for ever, as much as the node can do.
#[derive(Debug, Clone, Default)]
pub struct TokenFile {
    /// In the order of the file, each name once.
    pub tokens: Vec<TokenEntry>,
}

/// What is wrong with a file. It never has a secret in it: someone may have pasted one where its hash belongs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is too long.
    #[error("the file has more than {FILE_BYTES_MAX} bytes")]
    TooLong,
    /// Nothing is in it: somebody is about to write it, or failed to.
    #[error("the file is empty, expected at least a line; `ladoga token create` makes one")]
    Empty,
    /// It may be cut off: what a token may not do can stand in its last line.
    #[error("the last line has no end, so the file may be cut off; expected a newline behind it")]
    CutOff,
    /// It is none in TOML, or has something that it cannot have.
    #[error("line {line}: {reason}")]
    Toml {
        /// Where, from 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// There are too many.
    #[error("the file has {found} tokens, expected at most {TOKENS_MAX}")]
    TooMany {
        /// How many.
        found: usize,
    },
    /// One of them is none.
    #[error("token {number}: {reason}")]
    Token {
        /// Its place in the file, from 1.
        number: usize,
        /// What is wrong with it.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileText {
    #[serde(default)]
    token: Vec<EntryText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryText {
    id: String,
    sha256: String,
    scopes: Vec<String>,
    prefixes: Option<Vec<String>>,
    expires: Option<Datetime>,
    requests_per_second: Option<u64>,
    bytes_per_second: Option<u64>,
}

impl TokenFile {
    /// Reads all of it, or nothing.
    pub fn parse(content: &[u8]) -> Result<TokenFile, FileError> {
        if content.len() > FILE_BYTES_MAX {
            return Err(FileError::TooLong);
        }
        match content.last() {
            None => return Err(FileError::Empty),
            Some(b'\n') => {}
            Some(_) => return Err(FileError::CutOff),
        }
        let no_text = || FileError::Toml { line: 1, reason: "the file is not UTF-8".to_owned() };
        let text = str::from_utf8(content).map_err(|_| no_text())?;
        let file: FileText = toml::from_str(text).map_err(|error| not_toml(text, &error))?;
        if file.token.len() > TOKENS_MAX {
            return Err(FileError::TooMany { found: file.token.len() });
        }
        let mut tokens: Vec<TokenEntry> = Vec::with_capacity(file.token.len());
        for (index, entry) in file.token.into_iter().enumerate() {
            let wrong = |reason: String| FileError::Token { number: index + 1, reason: harmless(&reason) };
            let entry = entry.read().map_err(wrong)?;
            if tokens.iter().any(|known| known.id == entry.id) {
                return Err(wrong(format!("the id '{}' is there twice", entry.id)));
            }
            tokens.push(entry);
        }
        Ok(TokenFile { tokens })
    }

    /// As it is written. Comments of people are not kept.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# Tokens of Ladoga, written by `ladoga token`. Only hashes of the secrets are here.\n\
             # A running node reads the file again when it changes.\n",
        );
        for token in &self.tokens {
            // Writing to a string does not fail.
            let _ = token.write(&mut text);
        }
        text
    }
}

impl EntryText {
    fn read(self) -> Result<TokenEntry, String> {
        let id = TokenId::parse(&self.id)
            .ok_or_else(|| format!("id is '{}', expected {}", self.id.escape_debug(), TokenId::EXPECTED))?;
        let of = |what: String| format!("'{id}': {what}");
        let hash = SecretHash::parse(&self.sha256)
            .ok_or_else(|| of("sha256 is no hash, expected 64 hexadecimal digits".to_owned()))?;
        let mut scopes = Scopes::NONE;
        for word in &self.scopes {
            let scope = Scope::parse(word).ok_or_else(|| {
                let all = Scope::ALL.map(Scope::word).join(", ");
                of(format!("scopes has '{}', expected some of {all}", word.escape_debug()))
            })?;
            scopes = scopes.and(Scopes::of(&[scope]));
        }
        let prefixes = prefixes(self.prefixes).map_err(of)?;
        let expires_at_ms = self.expires.map(|moment| {
            let expected = "expires is no moment, expected one such as 2027-01-31T12:00:00Z";
            moment_ms(&moment).ok_or_else(|| of(expected.to_owned()))
        });
        Ok(TokenEntry {
            expires_at_ms: expires_at_ms.transpose()?,
            requests: rate("requests_per_second", self.requests_per_second, REQUESTS_PER_SECOND_MAX)
                .map_err(of)?,
            bytes: rate("bytes_per_second", self.bytes_per_second, BYTES_PER_SECOND_MAX).map_err(of)?,
            grant: Grant::new(scopes, prefixes),
            hash,
            id,
        })
    }
}

/// An empty list, or an empty prefix, would mean all keys to one reader and none to another.
fn prefixes(written: Option<Vec<String>>) -> Result<Vec<Box<[u8]>>, String> {
    let Some(prefixes) = written else { return Ok(Vec::new()) };
    if prefixes.is_empty() || prefixes.len() > PREFIXES_MAX {
        let found = prefixes.len();
        return Err(format!(
            "prefixes has {found} of them, expected 1 to {PREFIXES_MAX}; leave it out for all keys"
        ));
    }
    if prefixes.iter().any(|prefix| !(1..=PREFIX_BYTES_MAX).contains(&prefix.len())) {
        return Err(format!(
            "a prefix is empty or too long, expected 1 to {PREFIX_BYTES_MAX} bytes; leave prefixes out for all keys"
        ));
    }
    Ok(prefixes.into_iter().map(|prefix| prefix.into_bytes().into_boxed_slice()).collect())
}

fn rate(name: &str, written: Option<u64>, max: u64) -> Result<Option<Rate>, String> {
    let Some(per_second) = written else { return Ok(None) };
    match Rate::per_second(per_second).filter(|_| per_second <= max) {
        Some(rate) => Ok(Some(rate)),
        None => Err(format!("{name} is {per_second}, expected 1 to {max}; leave it out for no limit")),
    }
}

fn not_toml(text: &str, error: &toml::de::Error) -> FileError {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    FileError::Toml { line: before.matches('\n').count() + 1, reason: harmless(error.message()) }
}

/// Words of another program, or of the file, on one line, without anything that could be a secret.
fn harmless(reason: &str) -> String {
    let printable = |character: char| if character.is_control() { ' ' } else { character };
    let mut harmless = String::new();
    for (number, word) in reason.split(' ').enumerate() {
        if number > 0 {
            harmless.push(' ');
        }
        // Neither a token nor the secret of one is as short as this.
        let is_long = word.len() >= 40;
        harmless.push_str(if is_long { "[...]" } else { word });
    }
    harmless.chars().take(REASON_CHARS_MAX).map(printable).collect()
}

impl TokenEntry {
    fn write(&self, out: &mut String) -> std::fmt::Result {
        let scopes: Vec<String> = self.grant.scopes().iter().map(|scope| format!("\"{scope}\"")).collect();
        writeln!(out, "\n[[token]]\nid = \"{}\"\nsha256 = \"{}\"", self.id, self.hash.text())?;
        writeln!(out, "scopes = [{}]", scopes.join(", "))?;
        if !self.grant.prefixes().is_empty() {
            let text =
                |prefix: &[u8]| toml::Value::from(String::from_utf8_lossy(prefix).into_owned()).to_string();
            let prefixes: Vec<String> = self.grant.prefixes().iter().map(|prefix| text(prefix)).collect();
            writeln!(out, "prefixes = [{}]", prefixes.join(", "))?;
        }
        if let Some(expires_at_ms) = self.expires_at_ms {
            writeln!(out, "expires = {}", moment_text(expires_at_ms))?;
        }
        for (name, rate) in [("requests_per_second", self.requests), ("bytes_per_second", self.bytes)] {
            if let Some(rate) = rate {
                writeln!(out, "{name} = {}", rate.get())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
