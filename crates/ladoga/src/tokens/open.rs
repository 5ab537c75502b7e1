use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use ladoga_access::{PEER_SECRET_BYTES_MIN, PeerSecret, TokenFile};
use ladoga_env::real::read_regular_file;
use ladoga_node::{Access, Audit, AuditLog, Guard, Hosts};
use ladoga_tls::{NodeTls, TlsFiles, TlsPaths};

use super::store::{parse_tokens, read_tokens};
use super::watched::WatchedTokens;
use crate::reload::{Reload, WatchedTls, tell_objections};
use crate::settings::{AccessSettings, SettingError};

/// The longest secret of a cluster.
const PEER_SECRET_BYTES_MAX: usize = 4 << 10;

/// What a node is started with.
pub(crate) struct Opened {
    pub(crate) access: Access,
    pub(crate) peer_secret: Option<PeerSecret>,
    /// The files that it reads anew while it runs.
    pub(crate) watched: Vec<Box<dyn Reload>>,
}

/// Reads what a node is started with. `own` are the names under which other nodes know it.
pub(crate) fn open(
    settings: &AccessSettings,
    tls: Option<&TlsPaths>,
    own: &[String],
) -> Result<Opened, SettingError> {
    let mut watched: Vec<Box<dyn Reload>> = Vec::new();
    let mut access = Access {
        hosts: Hosts::new(settings.allow_host.iter().chain(own).map(String::as_str)),
        ..Access::default()
    };
    let Files { tokens, peer_secret } = Files::read(settings)?;
    if let (Some(path), Some((content, file))) = (&settings.tokens, tokens) {
        let guard = Arc::new(Guard::new(file));
        watched.push(Box::new(WatchedTokens::new(path.clone(), content, Arc::clone(&guard))));
        access.guard = Some(guard);
    }
    if let Some(path) = &settings.audit {
        access.audit = Some(Arc::new(audit(path, settings.audit_writes)?));
    }
    if let Some(paths) = tls {
        let (tls, files) = node_tls(paths)?;
        let tls = Arc::new(tls);
        tell_objections(&tls);
        watched.push(Box::new(WatchedTls::new(Arc::clone(&tls), files)));
        access.tls = Some(tls);
    }
    Ok(Opened { access, peer_secret, watched })
}

/// The TLS of a node, and the files that it is of.
fn node_tls(paths: &TlsPaths) -> Result<(NodeTls, TlsFiles), SettingError> {
    let wrong = |expected: String| wrong("--tls-cert", &paths.certificate, expected);
    let files = paths.read().map_err(|error| wrong(format!("files of TLS: {error}")))?;
    let tls = NodeTls::new(files.clone())
        .map_err(|error| wrong(format!("files of TLS that can be used: {error}")))?;
    Ok((tls, files))
}

/// Whether a node could be started with them.
pub(crate) fn check(settings: &AccessSettings, tls: Option<&TlsPaths>) -> Result<(), SettingError> {
    tls.map(node_tls).transpose()?;
    settings.audit.as_deref().map(check_audit).transpose()?;
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
    file.and_then(|file| Audit::start(AuditLog { is_torn: ends_within_line(&file, path)?, file }, has_writes))
        .map_err(|error| wrong("--audit", path, format!("a file that can be written: {error}")))
}

/// Whether a log was left with a part of a line. A pipe, a device, and a file that may not be read count as whole.
#[expect(clippy::disallowed_methods, reason = "as above")]
fn ends_within_line(file: &fs::File, path: &Path) -> std::io::Result<bool> {
    let metadata = file.metadata()?;
    let Some(last) = metadata.len().checked_sub(1).filter(|_| metadata.is_file()) else { return Ok(false) };
    let mut byte = [0];
    let read = fs::File::open(path).and_then(|file| file.read_exact_at(&mut byte, last));
    Ok(read.is_ok() && byte != *b"\n")
}

/// Whether a file can be appended to, or made. Makes none.
#[expect(clippy::disallowed_methods, reason = "as above")]
fn check_audit(path: &Path) -> Result<(), SettingError> {
    let checked = match fs::OpenOptions::new().append(true).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            rustix::fs::access(
                parent.unwrap_or(Path::new(".")),
                rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK,
            )
            .map_err(Into::into)
        }
        opened => opened.map(drop),
    };
    checked.map_err(|error| wrong("--audit", path, format!("a file that can be written: {error}")))
}

fn peer_secret(path: &Path) -> Result<PeerSecret, SettingError> {
    let wrong = |expected: String| wrong("--peer-secret", path, expected);
    let content = read_regular_file(path, PEER_SECRET_BYTES_MAX)
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

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
