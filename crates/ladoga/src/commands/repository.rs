//! Where backups are: in a directory of this machine, or in a bucket.

use std::path::Path;
use std::sync::Arc;

use ladoga_backup::Repository;
use ladoga_env::{Disk, Env};
use ladoga_http1::masked;

use super::Failure;

/// The repository at a path, which is there.
pub(super) fn open(env: &Env, path: &Path) -> Result<Repository, Failure> {
    Ok(Repository::open(&disk_of(env, path)?, path)?)
}

/// Refuses what looks like a URL, which would be taken for a directory of that name, and what can be none, as there is a file in its place.
pub(super) fn expect_directory(path: &Path, expected: &str) -> Result<(), Failure> {
    let text = path.to_string_lossy();
    let is_url = text.split_once("://").is_some_and(|(scheme, _)| {
        let is_scheme_char = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_scheme_char)
    });
    if is_url {
        return Err(Failure::Usage(format!("'{}' is no directory, expected {expected}", masked(&text))));
    }
    // What is not there yet is made.
    let found = path.ancestors().find(|at| at.exists());
    found.filter(|at| !at.is_dir()).map_or(Ok(()), |file| {
        Err(Failure::Failed(format!("{} is no directory, expected {expected}", file.display())))
    })
}

/// What is expected as a place for backups.
const PLACES: &str = "a directory, or a bucket as s3://BUCKET/PREFIX";

/// What the files of a repository are on.
#[cfg(feature = "s3")]
pub(super) fn disk_of(env: &Env, path: &Path) -> Result<Arc<dyn Disk>, Failure> {
    use ladoga_s3::{BadSettings, Place, S3Disk, Settings};
    if !Place::is_meant_by(path) {
        expect_directory(path, PLACES)?;
        return Ok(Arc::clone(&env.disk));
    }
    let place = Place::parse(path).map_err(|error| Failure::Usage(masked(&error.to_string())))?;
    let usage = |error: BadSettings| Failure::Usage(error.to_string());
    let settings = Settings::of(|name| std::env::var(name).ok()).map_err(usage)?;
    Ok(Arc::new(S3Disk::new(env, path, &place, &settings).map_err(usage)?))
}

#[cfg(not(feature = "s3"))]
pub(super) fn disk_of(env: &Env, path: &Path) -> Result<Arc<dyn Disk>, Failure> {
    if path.starts_with("s3:") {
        let text = "this program was built without S3; expected a directory, or one built with `cargo build --release -p ladoga`";
        return Err(Failure::Usage(text.to_owned()));
    }
    expect_directory(path, PLACES)?;
    Ok(Arc::clone(&env.disk))
}
