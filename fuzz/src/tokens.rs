//! Files of tokens, and what clients show.

use ladoga_access::{FILE_BYTES_MAX, Presented, TokenFile, TokenId, bearer};

/// The longest error: it is one line for an operator.
const ERROR_BYTES_MAX: usize = 1_000;

/// A file of tokens: what is read and written again is the same, and what is wrong is one line.
///
/// # Panics
/// If it is not.
pub fn tokens(bytes: &[u8]) {
    match TokenFile::parse(bytes) {
        Ok(file) => {
            let text = file.text();
            assert!(bytes.len() <= FILE_BYTES_MAX);
            // Comments and numbers can be written in longer words, so a file may be too long once it is written again.
            if text.len() <= FILE_BYTES_MAX {
                let again = TokenFile::parse(text.as_bytes()).map(|file| file.text());
                assert_eq!(again.as_ref(), Ok(&text), "{}", bytes.escape_ascii());
            }
        }
        Err(error) => {
            let line = error.to_string();
            assert!(line.len() <= ERROR_BYTES_MAX, "{line}");
            assert!(!line.contains(char::is_control), "{line:?}");
        }
    }
}

/// What a client shows, by a header field and by a command.
///
/// # Panics
/// If what is read of it is more than there was, or not a name and a secret.
pub fn credentials(bytes: &[u8]) {
    let (name, secret) = bytes.split_at(bytes.iter().position(|byte| *byte == b' ').unwrap_or(0));
    let all = [bearer(bytes), Presented::parse(bytes), Presented::of(name, secret.trim_ascii())];
    for presented in all.into_iter().flatten() {
        assert!(TokenId::parse(presented.id).is_some(), "{}", bytes.escape_ascii());
        assert!(bytes.windows(presented.id.len()).any(|part| part == presented.id.as_bytes()));
        let _ = presented.hash();
    }
}

/// Files to begin from.
pub fn token_seeds() -> Vec<Vec<u8>> {
    let hash = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let token = |rest: &str| format!("[[token]]\nid = \"app\"\nsha256 = \"{hash}\"\n{rest}\n").into_bytes();
    vec![
        token("scopes = [\"read\", \"write\"]"),
        token("scopes = []\nprefixes = [\"user:\", \"\\u00e9\\n\"]\nexpires = 2027-01-31T12:00:00.5+01:30"),
        token("scopes = [\"admin\"]\nrequests_per_second = 10\nbytes_per_second = 1_000_000 # much"),
    ]
}

/// What clients show, to begin from.
pub fn credential_seeds() -> Vec<Vec<u8>> {
    let secret = "A-_b".repeat(10) + "xyz";
    ["Bearer ldg_app_", "ldg_a_b_", "app ", "app ldg_app_"]
        .map(|start| format!("{start}{secret}").into_bytes())
        .into()
}
