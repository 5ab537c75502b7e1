use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use ladoga_access::{PEER_SECRET_BYTES_MIN, PeerSecret, TokenFile};
use ladoga_node::{Access, Audit, Guard, Hosts};

use super::store::{parse_tokens, read_bounded, read_tokens};
use super::watch::watch;
use crate::settings::{AccessSettings, SettingError};

/// The longest secret of a cluster.
const PEER_SECRET_BYTES_MAX: usize = 4 << 10;

/// Reads what a node is started with. `own` are the names under which other nodes know it.
pub(crate) fn open(
    settings: &AccessSettings,
    own: &[String],
) -> Result<(Access, Option<PeerSecret>), SettingError> {
    let mut access = Access {
        hosts: Hosts::new(settings.allow_host.iter().chain(own).map(String::as_str)),
        ..Access::default()
    };
    let Files { tokens, peer_secret } = Files::read(settings)?;
    if let (Some(path), Some((content, file))) = (&settings.tokens, tokens) {
        let wrong = |expected: String| wrong("--tokens", path, expected);
        let guard = Arc::new(Guard::new(file));
        watch(path.clone(), content, Arc::clone(&guard))
            .map_err(|error| wrong(format!("a file that can be watched: {error}")))?;
        access.guard = Some(guard);
    }
    if let Some(path) = &settings.audit {
        access.audit = Some(Arc::new(audit(path, settings.audit_writes)?));
    }
    Ok((access, peer_secret))
}

/// Whether a node could be started with them.
pub(crate) fn check(settings: &AccessSettings) -> Result<(), SettingError> {
    Files::read(settings).map(drop)
}

/// What is read.
struct Files {
    /// As it is in the file, and what it means.
    tokens: Option<(Vec<u8>, TokenFile)>,
    peer_secret: Option<PeerSecret>,
}

impl Files {
    fn read(settings: &AccessSettings) -> Result<Files, SettingError> {
        Ok(Files {
            tokens: settings.tokens.as_deref().map(tokens).transpose()?,
            peer_secret: settings.peer_secret.as_deref().map(peer_secret).transpose()?,
        })
    }
}

fn tokens(path: &Path) -> Result<(Vec<u8>, TokenFile), SettingError> {
    let wrong = |expected: String| wrong("--tokens", path, expected);
    let how = "`ladoga token create` makes one";
    let content = read_tokens(path).map_err(|error| wrong(format!("a file of tokens: {error}; {how}")))?;
    let file = parse_tokens(path, &content).map_err(|error| wrong(format!("a file of tokens: {error}")))?;
    Ok((content, file))
}

#[expect(clippy::disallowed_methods, reason = "a log is no part of a store; its disk seam is not for it")]
fn audit(path: &Path, has_writes: bool) -> Result<Audit, SettingError> {
    let file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    file.and_then(|file| Audit::start(file, has_writes))
        .map_err(|error| wrong("--audit", path, format!("a file that can be written: {error}")))
}

fn peer_secret(path: &Path) -> Result<PeerSecret, SettingError> {
    let wrong = |expected: String| wrong("--peer-secret", path, expected);
    let content = read_bounded(path, PEER_SECRET_BYTES_MAX)
        .map_err(|error| wrong(format!("a file that can be read: {error}")))?;
    if content.len() > PEER_SECRET_BYTES_MAX {
        return Err(wrong(format!("a file of at most {PEER_SECRET_BYTES_MAX} bytes")));
    }
    let too_short =
        || wrong(format!("a file of at least {PEER_SECRET_BYTES_MIN} bytes that nobody can guess"));
    PeerSecret::parse(&content).ok_or_else(too_short)
}

fn wrong(name: &str, path: &Path, expected: String) -> SettingError {
    SettingError { name: name.to_owned(), value: path.display().to_string(), expected }
}
